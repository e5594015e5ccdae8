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
#include "measure/neighbours.h"
#include "rt/context.h"

namespace fettle {
namespace {

/// Addresses that the C library reserves for a thread's heap, and for a thread.
constexpr int64_t kHeapBytes = int64_t{128} << 20, kStackBytes = 16 << 20;

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
    {"neighbour-fail", Misbehaviour::kNeighbourFail},
    {"neighbour-crash", Misbehaviour::kNeighbourCrash},
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
    case Misbehaviour::kNeighbourFail:
    case Misbehaviour::kNeighbourCrash:
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

/// Who sees what the calls of a stream write: the worker, or nobody.
enum class Readers : uint8_t { kWorker, kNobody };

/// One of the streams that run a candidate at once, on memory of its own. Outputs that the worker reads are made where
/// a model has them, too: in huge pages, which cannot be shared.
class CandidateStream {
 public:
  CandidateStream(const RunRequest& request, Readers readers)
      : context_(request.threads), readers_(readers), is_whole_(context_.threads() >= request.threads) {}

  /// Takes memory for the kernel's parameters; `entry` numbers kernels from 0 on.
  void place(const LoadedKernel& kernel, const BufferStore::Arguments& arguments, size_t n_params) {
    Entry& entry = entries_.emplace_back(Entry{kernel.kernel.function, {}});
    for (size_t i = 0; i < arguments.slots.size(); ++i) {
      const GuardedBuffer& memory = *arguments.slots[i]->memory;
      const ParamKind kind = i < n_params ? kernel.built.info.params[i].kind : ParamKind::kConstant;
      const bool is_output = kind == ParamKind::kOutput;
      const bool is_own = readers_ == Readers::kWorker ? is_output && memory.bytes() >= GuardedBuffer::kHugeFromBytes
                                                       : kind != ParamKind::kConstant;
      const GuardedBuffer* const taken = is_own ? own(memory) : &memory;
      if (!taken) continue;
      if (!is_output) taken->forbid_writing();
      entry.buffers.push_back(taken->data());
    }
  }
  /// All threads and all memory are there.
  bool is_whole() const { return is_whole_; }

  int32_t call(size_t entry, const std::vector<int64_t>& ints) {
    return entries_[entry].function(context_.get(), entries_[entry].buffers.data(), ints.data());
  }
  FettleContext* context() { return context_.get(); }
  std::vector<void*>& buffers(size_t entry) { return entries_[entry].buffers; }
  /// To where the worker reads them.
  void give_back() const {
    for (const auto& [memory, copy] : own_)
      if (copy) std::memcpy(memory->data(), copy->data(), static_cast<size_t>(memory->bytes()));
  }

 private:
  struct Entry {
    FettleKernel function;
    std::vector<void*> buffers;
  };

  const GuardedBuffer* own(const GuardedBuffer& memory) {
    std::shared_ptr<GuardedBuffer>& copy = own_[&memory];
    if (copy) return copy.get();
    auto made = GuardedBuffer::make(memory.bytes(), memory.stagger_bytes(), Sharing::kPrivate);
    is_whole_ &= made.has_value();
    if (!made) return nullptr;
    copy = std::move(*made);
    std::memcpy(copy->data(), memory.data(), static_cast<size_t>(memory.bytes()));
    return copy.get();
  }

  rt::OwnedContext context_;
  Readers readers_;
  bool is_whole_;
  std::vector<Entry> entries_;
  std::map<const GuardedBuffer*, std::shared_ptr<GuardedBuffer>> own_;  // copies, by what they are copies of
};

/// What a stream's calls number the kernels.
enum CandidateEntry : size_t { kEntryCandidate, kEntryBeside };

/// The other streams. Each takes its memory on its own thread, so that it lies near the core that uses it.
class OtherStreams {
 public:
  OtherStreams(const RunRequest& request, const std::function<void(CandidateStream&)>& place,
               const std::vector<int64_t>& ints)
      : streams_(static_cast<size_t>(request.streams - 1)) {
    const auto begin = [this, &request, &place](size_t row) {
      streams_[row] = std::make_unique<CandidateStream>(request, Readers::kNobody);
      place(*streams_[row]);
      gather_team(streams_[row]->context()->team);
    };
    const auto call = [this, &request, &ints](size_t row, size_t entry) -> Neighbours::Call {
      return [this, &request, &ints, row, entry]() -> int32_t {
        if (row == 0 && request.misbehaviour == Misbehaviour::kNeighbourFail) return FETTLE_KERNEL_FAILED;
        if (row == 0 && request.misbehaviour == Misbehaviour::kNeighbourCrash)
          return *static_cast<volatile int32_t*>(nullptr);
        CandidateStream& stream = *streams_[row];
        return stream.is_whole() ? stream.call(entry, ints) : FETTLE_OUT_OF_MEMORY;
      };
    };
    std::vector<std::vector<Neighbours::Call>> calls;
    for (size_t row = 0; row < streams_.size(); ++row) {
      calls.push_back({call(row, kEntryCandidate)});
      if (request.beside) calls.back().push_back(call(row, kEntryBeside));
    }
    if (auto started = Neighbours::start(std::move(calls), begin)) neighbours_ = std::move(*started);
  }

  /// Of what failed; 0: nothing.
  int32_t status() const { return neighbours_ ? neighbours_->status() : static_cast<int32_t>(FETTLE_OUT_OF_MEMORY); }
  /// What they run from now on. All have ended what they ran before.
  void turn_to(CandidateEntry entry) {
    if (neighbours_) neighbours_->turn_to(static_cast<int>(entry));
  }
  void stop() {
    if (neighbours_) neighbours_->stop();
  }

 private:
  std::vector<std::unique_ptr<CandidateStream>> streams_;
  std::unique_ptr<Neighbours> neighbours_;  // ends first
};

int be_candidate(const LoadedKernel& candidate, const BufferStore::Arguments& arguments, size_t n_params,
                 const std::vector<int64_t>& ints, const RunRequest& request, ChildReport& report) {
  const auto place = [&](CandidateStream& stream) {
    stream.place(candidate, arguments, n_params);
    if (request.beside) stream.place(*request.beside->kernel, request.beside->arguments, n_params);
  };
  CandidateStream stream(request, Readers::kWorker);
  place(stream);
  if (!stream.is_whole()) {
    report.status = FETTLE_OUT_OF_MEMORY;
    return 0;
  }

  std::optional<OtherStreams> others;
  bool good = request.misbehaviour == Misbehaviour::kNone || request.misbehaviour == Misbehaviour::kCorrupt;
  const auto call = [&] {
    if (!good) {
      good = true;
      if (const int32_t status =
              misbehave(request.misbehaviour, stream.context(), stream.buffers(kEntryCandidate).data(), arguments))
        return status;
    }
    const int32_t status = stream.call(kEntryCandidate, ints);
    return status || !others ? status : others->status();
  };
  if (request.timing) {
    gather_team(stream.context()->team);
    if (request.streams > 1) others.emplace(request, place, ints);
    // The other streams run whatever is timed, the reference in its turn as well. So a ratio is that of two servers:
    // one has the candidate on all streams, the other the reference.
    const auto timed = [&](std::function<int32_t()> one, CandidateEntry entry) {
      std::function<void()> turn;
      if (others) turn = [&others, entry] { others->turn_to(entry); };
      return by_clock(std::move(one), *request.timing, system_clocks(), std::move(turn));
    };
    const auto beside = [&] {
      const int32_t status = stream.call(kEntryBeside, ints);
      return status || !others ? status : others->status();
    };
    const TimeCalls calls = timed(call, kEntryCandidate);
    report.timing = request.beside ? time_beside(calls, timed(beside, kEntryBeside), *request.timing)
                                   : time_call(calls, *request.timing);
    if (others) {
      others->stop();
      // The fastest samples are those during which the system had stopped other streams.
      report.timing.min_s = report.timing.median_s;
    }
    report.status = report.timing.status || !others ? report.timing.status : others->status();
  } else {
    report.status = call();
  }
  if (request.misbehaviour == Misbehaviour::kCorrupt)
    for (size_t i = 0; i < n_params; ++i)
      if (candidate.built.info.params[i].kind == ParamKind::kOutput)
        std::memset(stream.buffers(kEntryCandidate)[i], 0x3f, 4);
  stream.give_back();
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
  const int64_t others = request.timing ? request.streams - 1 : 0;
  const auto add_own = [&](const LoadedKernel& kernel, const BufferStore::Arguments& own) {
    for (size_t i = 0; i < n_params; ++i) {
      const ParamKind kind = kernel.built.info.params[i].kind;
      const int64_t copies = kind == ParamKind::kConstant ? 0 : others + (kind == ParamKind::kOutput ? 1 : 0);
      limits.memory_bytes += copies * (2 * own.slots[i]->memory->bytes() + (6 << 20));
    }
  };
  add_own(candidate, arguments);
  if (request.beside) add_own(*request.beside->kernel, request.beside->arguments);
  limits.memory_bytes += others * (kHeapBytes + request.threads * kStackBytes);
  FETTLE_TRY_VOID(run_reporting([&] { return be_candidate(candidate, arguments, n_params, ints, request, *report); },
                                limits, request.give_up_fd, *report, signal));
  return report->timing;
}

}  // namespace fettle
