#include "measure/worker/candidate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <new>

#include "measure/shared_buffer.h"
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

// Runs in the child. What fails is in the report; the exit status says only that it came to its end.
int be_candidate(const LoadedKernel& candidate, const BufferStore::Arguments& arguments, size_t n_params,
                 const std::vector<int64_t>& ints, const RunRequest& request, bool run_prologue, ChildReport& report) {
  std::vector<void*> kernel_buffers = arguments.kernel, prologue_buffers = arguments.prologue;
  rt::OwnedContext context(request.threads);
  if (context.threads() < request.threads) {
    report.status = FETTLE_OUT_OF_MEMORY;
    return 0;
  }
  if (run_prologue) {
    report.status = candidate.prologue(context.get(), prologue_buffers.data(), ints.data());
    if (report.status != FETTLE_OK) return 0;
  }
  report.phase = ChildReport::kPrologueDone;
  for (size_t i = 0; i < arguments.slots.size(); ++i)
    if (i >= n_params || candidate.built.kernel_params[i].kind != ParamKind::kOutput)
      arguments.slots[i]->memory->forbid_writing();

  bool good = request.misbehaviour == Misbehaviour::kNone || request.misbehaviour == Misbehaviour::kCorrupt;
  const auto call = [&] {
    if (!good) {
      good = true;
      if (const int32_t status = misbehave(request.misbehaviour, context.get(), kernel_buffers.data(), arguments))
        return status;
    }
    return candidate.kernel(context.get(), kernel_buffers.data(), ints.data());
  };
  if (request.timing) {
    report.timing = time_call(call, *request.timing);
    report.status = report.timing.status;
  } else {
    report.status = call();
  }
  if (request.misbehaviour == Misbehaviour::kCorrupt)
    for (size_t i = 0; i < n_params; ++i)
      if (candidate.built.kernel_params[i].kind == ParamKind::kOutput)
        std::memset(arguments.slots[i]->memory->data(), 0x3f, 4);
  report.phase = ChildReport::kDone;
  return 0;
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

Result<Timing> run_candidate(const LoadedKernel& candidate, const BufferStore::Arguments& arguments, size_t n_params,
                             const std::vector<int64_t>& ints, const RunRequest& request, int* signal) {
  *signal = 0;
  FETTLE_TRY(const std::shared_ptr<SharedBuffer> page, SharedBuffer::make(sizeof(ChildReport), 0));
  auto* report = new (page->data()) ChildReport{};
  bool run_prologue = false;
  for (const auto& slot : arguments.packed) run_prologue |= !slot->filled;

  double granted = 0;
  const auto extend = [&]() -> double {
    if (report->phase >= ChildReport::kPrologueDone || !run_prologue || granted >= request.prologue_s) return 0;
    granted += 0.1;
    return 0.1;
  };
  const ChildOutcome outcome =
      run_in_child([&] { return be_candidate(candidate, arguments, n_params, ints, request, run_prologue, *report); },
                   request.limits, request.give_up_fd, extend);
  if (run_prologue && report->phase >= ChildReport::kPrologueDone)
    for (const auto& slot : arguments.packed) slot->filled = true;

  switch (outcome.end) {
    case ChildOutcome::End::kTimedOut:
      return fail(ErrorCode::E402, fmt::format("it ran for {:.3g} s", request.limits.timeout_s + granted));
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
  if (report->status == FETTLE_OUT_OF_MEMORY)
    return fail(ErrorCode::E404, fmt::format("it could not have more than {} MiB", request.limits.memory_bytes >> 20));
  if (report->status != FETTLE_OK) return fail(ErrorCode::E403, fmt::format("the kernel returned {}", report->status));
  if (report->phase != ChildReport::kDone)
    return fail(ErrorCode::E403, fmt::format("it ended the process with status {}", outcome.code));
  return report->timing;
}

}  // namespace fettle
