#include "measure/worker/candidate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <new>

#include "measure/gather.h"
#include "measure/guarded_buffer.h"
#include "rt/context.h"

namespace fettle {
namespace {

struct Named {
  std::string_view name;
  Misbehaviour misbehaviour;
};
constexpr Named kMisbehaviours[] = {
    {"crash", Misbehaviour::kCrash},
    {"hang", Misbehaviour::kHang},
    {"allocate", Misbehaviour::kAllocate},
    {"fork", Misbehaviour::kFork},
    {"exit", Misbehaviour::kExit},
    {"corrupt", Misbehaviour::kCorrupt},
    {"fail", Misbehaviour::kFail},
    {"write-input", Misbehaviour::kWriteInput},
    {"overrun", Misbehaviour::kOverrun},
    {"build-crash", Misbehaviour::kBuildCrash},
    {"build-hang", Misbehaviour::kBuildHang},
};

// A kernel's first call, gone wrong.
int32_t misbehave(Misbehaviour what, FettleContext* context, void** buffers, const BufferStore::Arguments& arguments) {
  switch (what) {
    case Misbehaviour::kCrash:
      return *static_cast<volatile int32_t*>(nullptr);
    case Misbehaviour::kHang: {
      volatile bool for_ever = true;
      while (for_ever) {
      }
      return FETTLE_OK;
    }
    case Misbehaviour::kAllocate:
      for (constexpr int64_t kBytes = 64 << 20;;) {
        void* block = fettle_scratch_acquire(context, kBytes);
        if (!block) return FETTLE_OUT_OF_MEMORY;
        std::memset(block, 1, kBytes);
      }
    case Misbehaviour::kFork:
      if (::fork() == 0) ::pause();
      return FETTLE_OK;
    case Misbehaviour::kExit:
      ::_exit(0);
    case Misbehaviour::kFail:
      return FETTLE_KERNEL_FAILED;
    case Misbehaviour::kWriteInput:
      *static_cast<volatile char*>(buffers[0]) = 1;
      return FETTLE_OK;
    case Misbehaviour::kOverrun: {
      const BufferStore::Slot& last = *arguments.slots.back();
      for (int64_t i = 0; i < 8192; ++i) static_cast<volatile char*>(last.memory->data())[last.memory->bytes() + i] = 1;
      return FETTLE_OK;
    }
    case Misbehaviour::kCorrupt:
    case Misbehaviour::kBuildCrash:
    case Misbehaviour::kBuildHang:
    case Misbehaviour::kNone:
      return FETTLE_OK;
  }
  return FETTLE_OK;
}

int be_prologue(const LoadedKernel& candidate, const BufferStore::Arguments& arguments,
                const std::vector<int64_t>& ints, int threads, ChildReport& report) {
  std::vector<void*> buffers;
  for (const auto& slot : arguments.prologue) buffers.push_back(slot->memory->data());
  rt::OwnedContext context(threads);
  report.status = context.threads() < threads ? static_cast<int32_t>(FETTLE_OUT_OF_MEMORY)
                                              : candidate.prologue.function(context.get(), buffers.data(), ints.data());
  report.done = true;
  return 0;
}

/// Memory of a child for its calls. Outputs are made where a model has them, too: in huge pages, which cannot be
/// shared.
class ChildMemory {
 public:
  /// The buffers of a kernel's call. False: there is no memory.
  bool place(const LoadedKernel& kernel, const BufferStore::Arguments& arguments, size_t n_params,
             std::vector<void*>& buffers) {
    bool has_memory = true;
    for (size_t i = 0; i < arguments.slots.size(); ++i) {
      const GuardedBuffer& memory = *arguments.slots[i]->memory;
      buffers.push_back(memory.data());
      if (i >= n_params || kernel.built.info.params[i].kind != ParamKind::kOutput) {
        memory.forbid_writing();
      } else if (memory.bytes() >= GuardedBuffer::kHugeFromBytes) {
        std::shared_ptr<GuardedBuffer>& output = outputs_[&memory];
        if (!output) {
          auto made = GuardedBuffer::make(memory.bytes(), memory.stagger_bytes(), Sharing::kPrivate);
          has_memory &= made.has_value();
          if (!made) continue;
          output = std::move(*made);
          std::memcpy(output->data(), memory.data(), static_cast<size_t>(memory.bytes()));
        }
        buffers[i] = output->data();
      }
    }
    return has_memory;
  }
  /// To where the worker reads them.
  void give_back() const {
    for (const auto& [memory, output] : outputs_)
      if (output) std::memcpy(memory->data(), output->data(), static_cast<size_t>(memory->bytes()));
  }

 private:
  std::map<const GuardedBuffer*, std::shared_ptr<GuardedBuffer>> outputs_;
};

int be_candidate(const LoadedKernel& candidate, const BufferStore::Arguments& arguments, size_t n_params,
                 const std::vector<int64_t>& ints, const RunRequest& request, ChildReport& report) {
  rt::OwnedContext context(request.threads);
  ChildMemory memory;
  std::vector<void*> buffers, buffers_beside;
  bool has_memory = context.threads() >= request.threads;
  has_memory &= memory.place(candidate, arguments, n_params, buffers);
  if (request.beside)
    has_memory &= memory.place(*request.beside->kernel, request.beside->arguments, n_params, buffers_beside);
  if (!has_memory) {
    report.status = FETTLE_OUT_OF_MEMORY;
    return 0;
  }

  bool good = request.misbehaviour == Misbehaviour::kNone || request.misbehaviour == Misbehaviour::kCorrupt;
  const auto call = [&] {
    if (!good) {
      good = true;
      if (const int32_t status = misbehave(request.misbehaviour, context.get(), buffers.data(), arguments))
        return status;
    }
    return candidate.kernel.function(context.get(), buffers.data(), ints.data());
  };
  const auto beside = [&] {
    return request.beside->kernel->kernel.function(context.get(), buffers_beside.data(), ints.data());
  };
  if (request.timing) {
    gather_team(context.get()->team);
    report.timing = request.beside ? time_beside(call, beside, *request.timing) : time_call(call, *request.timing);
    report.status = report.timing.status;
  } else {
    report.status = call();
  }
  if (request.misbehaviour == Misbehaviour::kCorrupt)
    for (size_t i = 0; i < n_params; ++i)
      if (candidate.built.info.params[i].kind == ParamKind::kOutput) std::memset(buffers[i], 0x3f, 4);
  memory.give_back();
  report.done = true;
  return 0;
}

// Runs `body` in a child; an error says how that ended. `*signal` is set for E403.
Result<> run_reporting(const std::function<int()>& body, const ChildLimits& limits, int give_up_fd,
                       const ChildReport& report, int* signal) {
  const ChildOutcome outcome = run_in_child(body, limits, give_up_fd);
  switch (outcome.end) {
    case ChildOutcome::End::kTimedOut:
      return fail(ErrorCode::E402, fmt::format("it ran for {:.3g} s", limits.timeout_s));
    case ChildOutcome::End::kAbandoned:
      return fail(ErrorCode::E406, "the tuner has gone");
    case ChildOutcome::End::kNotStarted:
      return fail(ErrorCode::E406, fmt::format("no process for it: {}", std::strerror(outcome.code)));
    case ChildOutcome::End::kLeftProcesses:
      return fail(ErrorCode::E403, "it left processes behind");
    case ChildOutcome::End::kSignalled:
      *signal = outcome.code;
      if (outcome.code == SIGKILL) {
        *signal = 0;
        return fail(ErrorCode::E404, "the system ended it, most likely for want of memory");
      }
      if (outcome.code == SIGSYS) return fail(ErrorCode::E403, "it tried to start a process");
      return fail(ErrorCode::E403, signal_text(outcome.code));
    case ChildOutcome::End::kExited:
      break;
  }
  if (report.status == FETTLE_OUT_OF_MEMORY)
    return fail(ErrorCode::E404, fmt::format("it could not have more than {} MiB", limits.memory_bytes >> 20));
  if (report.status != FETTLE_OK) return fail(ErrorCode::E403, fmt::format("the kernel returned {}", report.status));
  if (!report.done) return fail(ErrorCode::E403, fmt::format("it ended the process with status {}", outcome.code));
  return {};
}

}  // namespace

std::optional<Misbehaviour> find_misbehaviour(std::string_view name) {
  for (const Named& named : kMisbehaviours)
    if (named.name == name) return named.misbehaviour;
  return std::nullopt;
}

Misbehaviour planned_by_id(int64_t every, int64_t id) {
  constexpr Misbehaviour kInTurn[] = {Misbehaviour::kCrash, Misbehaviour::kHang, Misbehaviour::kAllocate,
                                      Misbehaviour::kFork, Misbehaviour::kCorrupt};
  return every > 0 && id % every == every - 1 ? kInTurn[id / every % 5] : Misbehaviour::kNone;
}

Result<> run_prologue(const LoadedKernel& kernel, BufferStore::Arguments& arguments, const std::vector<int64_t>& ints,
                      const RunRequest& request, int* signal) {
  if (!arguments.needs_prologue()) return {};
  FETTLE_TRY(const std::shared_ptr<GuardedBuffer> page, GuardedBuffer::make(sizeof(ChildReport), 0, Sharing::kShared));
  auto* report = new (page->data()) ChildReport{};
  ChildLimits limits = request.limits;
  limits.timeout_s = std::max(limits.timeout_s, request.prologue_s);
  FETTLE_TRY_VOID(run_reporting([&] { return be_prologue(kernel, arguments, ints, request.threads, *report); }, limits,
                                request.give_up_fd, *report, signal));
  return arguments.keep_packed();
}

Result<Timing> run_candidate(const LoadedKernel& candidate, BufferStore::Arguments& arguments, size_t n_params,
                             const std::vector<int64_t>& ints, const RunRequest& request, int* signal) {
  *signal = 0;
  FETTLE_TRY_VOID(run_prologue(candidate, arguments, ints, request, signal));
  if (request.beside)
    FETTLE_TRY_VOID(run_prologue(*request.beside->kernel, request.beside->arguments, ints, request, signal));
  FETTLE_TRY(const std::shared_ptr<GuardedBuffer> page, GuardedBuffer::make(sizeof(ChildReport), 0, Sharing::kShared));
  auto* report = new (page->data()) ChildReport{};
  ChildLimits limits = request.limits;
  const auto add_outputs = [&](const LoadedKernel& kernel, const BufferStore::Arguments& own) {
    for (size_t i = 0; i < n_params; ++i)
      if (kernel.built.info.params[i].kind == ParamKind::kOutput)
        limits.memory_bytes += 2 * own.slots[i]->memory->bytes() + (6 << 20);
  };
  add_outputs(candidate, arguments);
  if (request.beside) add_outputs(*request.beside->kernel, request.beside->arguments);
  FETTLE_TRY_VOID(run_reporting([&] { return be_candidate(candidate, arguments, n_params, ints, request, *report); },
                                limits, request.give_up_fd, *report, signal));
  return report->timing;
}

}  // namespace fettle
