#pragma once
// One run of a candidate, in a child of the worker.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "measure/child.h"
#include "measure/loaded_kernel.h"
#include "measure/timing.h"
#include "measure/worker/buffers.h"

namespace fettle {

/// What a candidate is made to do wrong when it runs, in tests of the harness.
enum class Misbehaviour : uint8_t {
  kNone,
  kCrash,
  kHang,
  kAllocate,
  kFork,
  kExit,
  kCorrupt,
  kFail,
  kWriteInput,
  kOverrun,
  kBuildCrash,
  kBuildHang,  // when it is built
  kNeighbourFail,
  kNeighbourCrash,  // not the call that is timed, but one beside it
};
/// "crash", "hang", "allocate", "fork", "exit", "corrupt", "fail", "write-input", "overrun", "build-crash",
/// "build-hang", "neighbour-fail", "neighbour-crash".
std::optional<Misbehaviour> find_misbehaviour(std::string_view name);
/// Of one in `every` candidates, by their ids: crash, hang, allocate, fork and corrupt, in turn.
Misbehaviour planned_by_id(int64_t every, int64_t id);

/// The page that a child writes and the worker reads. The exit status says only that it came to its end.
struct ChildReport {
  std::atomic<bool> done;
  int32_t status;  // FettleStatus of what failed, or 0
  Timing timing;
};

/// What candidates are timed in turn with, and its memory.
struct Beside {
  std::string trace;
  std::shared_ptr<LoadedKernel> kernel;
  BufferStore::Arguments arguments;
};

struct RunRequest {
  int threads = 1;                      // of each stream
  int streams = 1;                      // while it is timed, one fewer copies of it run beside it
  std::optional<TimingOptions> timing;  // none: one call only
  Beside* beside = nullptr;             // null: it is timed alone
  ChildLimits limits;
  double prologue_s = 10;  // a prologue's limit
  int give_up_fd = -1;
  Misbehaviour misbehaviour = Misbehaviour::kNone;
};

/// Runs the prologue, where its results are not there yet, in a child. Errors: those of run_candidate.
Result<> run_prologue(const LoadedKernel& kernel, BufferStore::Arguments& arguments, const std::vector<int64_t>& ints,
                      const RunRequest& request, int* signal);

/// Runs the prologue, where its results are not there yet, in a child of its own, and the kernel in another. Inputs,
/// constants and packed constants cannot be written meanwhile. Outputs are the candidate's, unless it is timed beside
/// another: then they are either's. Copies on other streams have threads, scratch memory, inputs and outputs of their
/// own, and share constants, as contexts of a model do. What one of them does wrong the candidate has done. All streams
/// together may allocate limits.memory_bytes. An error is E402, E403, E404 or E710, with `signal` set for E403.
Result<Timing> run_candidate(const LoadedKernel& candidate, BufferStore::Arguments& arguments, size_t n_params,
                             const std::vector<int64_t>& ints, const RunRequest& request, int* signal);

}  // namespace fettle
