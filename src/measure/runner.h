#pragma once
// Seam: how candidates of a workload are timed.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "measure/timing.h"

namespace fettle {

/// What came of one candidate.
struct MeasureResult {
  /// kNone: it was timed. E401 not built · E402 too slow · E403 crashed · E404 memory · E405 wrong result · E406 the
  /// harness failed, which says nothing about the candidate · E407 not reached, because `should_stop` said so or the
  /// time was up.
  ErrorCode error = ErrorCode::kNone;
  int signal = 0;  // E403
  std::string message;
  double median_s = 0;
  double min_s = 0;
  double half_width = 0;     // of the 95 % interval of the median, relative
  int64_t repeats = 0;       // batches timed
  bool lost_worker = false;  // E401, E403: the candidate took its worker along
  bool raced_out = false;    // stopped early, being plainly slower than the incumbent
  bool checked = false;      // its outputs were compared, and right
  bool beside = false;       // timed beside the reference, and then:
  double pace = 1;           // what that took meanwhile over beside_s; times are the clock's, divided by this
  double build_s = 0;        // replay, lowering, compilation, linking
  double run_s = 0;          // wall clock of its run

  bool ok() const { return error == ErrorCode::kNone; }
};

struct MeasureRequest {
  /// The best time so far; 0: none. Improves while candidates are measured.
  double incumbent_s = 0;
  /// False: each is timed to the end.
  bool race = true;
  /// The trace of a reference, and the time that it counts as. Candidates are timed in turn with it (time_beside),
  /// unless they are checked; what would be the best so far has to be that twice (confirm_best), since otherwise the
  /// luckiest of many were. Empty: they are timed alone.
  std::string beside_trace;
  double beside_s = 0;
  /// Compare each candidate's outputs with the plain program's (compare.h).
  bool check = false;
  /// What would be the best so far is built and timed again, by another worker where there is one: where memory lies
  /// there may be what it owed its time to. The slower of the two counts.
  bool confirm_best = false;
  /// How each is timed; incumbent_s in it is ignored.
  TimingOptions timing;
  /// Called as soon as each candidate's result is known, in order.
  std::function<void(size_t index, const MeasureResult&)> on_result;
  /// Asked before each build and run.
  std::function<bool()> should_stop;
  /// For all of them, from the call on: what is not done by then is E407, even in the middle of a run.
  double max_seconds = std::numeric_limits<double>::infinity();
};

struct WorkloadOptions {
  uint64_t seed = 0;          // of what buffers hold
  std::vector<int64_t> ints;  // integer parameters, in order; none: typical values
  /// Stands for the plain program in checks where that would take more than about a second (3e8 block instances): a
  /// trace that is trusted, such as the untuned default. Without it, checks beyond 3e9 are E406.
  std::string reference_trace;
};

class Runner {
 public:
  virtual ~Runner() = default;
  /// What the traces given from now on apply to. E406; E102, E709 where it cannot be measured.
  virtual Result<> set_workload(const Func& workload, const WorkloadOptions& options = {}) = 0;
  /// Times the candidates, each the text of a trace; one result each. E406 where no candidate can be measured any more.
  virtual Result<std::vector<MeasureResult>> measure(std::span<const std::string> traces,
                                                     const MeasureRequest& request = {}) = 0;
  /// How many candidates failed so far, by code.
  virtual const std::map<ErrorCode, int64_t>& failures() const = 0;
};

}  // namespace fettle
