#pragma once
// What the records of a mode say: its best-so-far against trials and seconds.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "database/database.h"
#include "search/modes.h"
#include "search/tasks.h"

namespace fettle::bench {

struct CurvePoint {
  int64_t trial = 0;   // from 1
  double seconds = 0;  // since the search began; what was known before an interruption is not counted twice
  double best_s = 0;   // of one call
};

/// A candidate whose time was measured to the end.
struct Tried {
  int64_t trial = 0;
  double seconds = 0;  // as in CurvePoint
  double own_s = 0;    // of one call, as its search saw it
  std::string trace;
};

/// One search of one task.
struct Curve {
  std::vector<CurvePoint> improvements;  // where best_s fell
  int64_t trials = 0;
  double seconds = 0;
  bool exhausted = false;  // the search ended since it knew no more: more trials would change nothing
  int64_t raced_out = 0, failed = 0, tight = 0;  // tight: the median's half-width is at most 2 %
  /// Whether all that so many trials can show is known.
  bool holds(int64_t n) const { return trials > 0 && (exhausted || trials >= n); }
  /// infinity before anything was measured.
  double best_after(int64_t trials) const;
  std::string best_trace_after(int64_t trials) const;
  /// The first trial (seconds) at which `target_s` was reached; 0: never.
  int64_t trials_to(double target_s) const;
  double seconds_to(double target_s) const;
  std::vector<std::string> traces;  // of each improvement
  std::vector<Tried> tried;         // in the order of trials
  bool from_default = false;        // the first of `tried` is the constructed default
};

/// What a tuning that ended there would time again side by side, after each of `curve.tried` (places in it, fastest
/// first): the `most` candidates that the search measured fastest; where it began with the default, of those that may
/// be faster (kMaybeFaster), and the default.
void visit_contenders(const Curve& curve, size_t most,
                      const std::function<void(size_t, const std::vector<size_t>&)>& visit);

/// Trials: the default where the mode begins with it, and what the search proposed; times again and checks are none.
Curve read_curve(const std::vector<Record>& records, bool with_default);

/// build/bench/search/MODE-SEED.db
std::filesystem::path records_file(const std::filesystem::path& folder, const std::string& mode, uint64_t seed);

}  // namespace fettle::bench
