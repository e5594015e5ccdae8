#pragma once
// One measurement: what was tried, what came of it, and how it was found.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "database/workload.h"
#include "schedule/decision.h"

namespace fettle {

/// Generations of records that no search asked for: a candidate timed again beside others; one whose results were
/// checked, by a single run.
inline constexpr int64_t kConfirmationGeneration = -1, kCheckGeneration = -2;

struct Record {
  TaskKey task;
  std::string trace;  // its text form
  DecisionMap decisions;

  // The outcome. kNone: it was measured; E401 … E405: it failed so, with a message and, for a crash, a signal; E406: it
  // could not be measured, twice, which says nothing about it.
  ErrorCode error = ErrorCode::kNone;
  int signal = 0;
  std::string message;
  double median_s = 0;
  double min_s = 0;
  double half_width = 0;  // of the 95 % interval of the median, relative to it
  int64_t repeats = 0;
  bool raced_out = false;  // stopped early, being plainly slower than the best: median_s is rough
  /// The machine's, where the candidate was timed beside a reference: what that took meanwhile over what it took at
  /// first. median_s and min_s are what the clock said, divided by this.
  double pace = 1;

  bool checked = false;      // its results were compared, and right; or it is what an untuned program does
  bool lost_worker = false;  // it failed so that the process that built or ran it was lost

  // How and where.
  std::string machine;     // Target in one line
  int64_t created_ns = 0;  // since 1970
  uint64_t run = 0;        // TuningRun::id; 0: of none
  double elapsed_s = 0;    // since its run began to search, while the machine was awake
  uint64_t seed = 0;
  int64_t generation = 0;
  int64_t candidate = 0;

  bool ok() const { return error == ErrorCode::kNone; }
};

/// One JSON object without line breaks: a line of an exported file.
std::string to_json_line(const Record& record);
/// E506: no JSON, of another format version, a field is missing or mistyped, a number is not finite, or the workload is
/// no program. The workload's hash is computed anew.
Result<Record> record_from_json(std::string_view line);

/// {"tiling/C/i": [32, 16], "register_tiling/C/tile": "14x2"}
std::string decisions_to_json(const DecisionMap& decisions);
/// E506.
Result<DecisionMap> decisions_from_json(std::string_view json);

/// Nanoseconds since 1970, now.
int64_t now_ns();

}  // namespace fettle
