#pragma once
// What the robustness benchmark tunes: small products, timed for real, or replayed.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "measure/local_measurer.h"
#include "tune/tuner.h"

namespace fettle::bench {

/// C = A @ B, small enough that building a candidate takes longer than running it.
Func small_product(int m, int n, int k);

/// Options for a measurer of one worker whose caches lie in `folder`. The worker lies beside this program.
LocalMeasurerOptions small_measurer(const std::filesystem::path& folder);
/// Options for quick timings.
TuneOptions small_tuning();

/// Hands on to another runner and remembers what it answered, or answers from what another of its kind remembers.
class ReplayingRunner : public Runner {
 public:
  /// Records.
  explicit ReplayingRunner(Runner& real) : real_(&real) {}
  /// Replays.
  explicit ReplayingRunner(const ReplayingRunner& recorded) : results_(recorded.results_) {}

  Result<> set_workload(const Func& workload, const WorkloadOptions& options) override;
  Result<std::vector<MeasureResult>> measure(std::span<const std::string> traces,
                                             const MeasureRequest& request) override;
  const std::map<ErrorCode, int64_t>& failures() const override { return failures_; }

  /// Every trace, as often as it was measured.
  const std::vector<std::string>& asked() const { return asked_; }
  /// Asked for while replaying, and not known.
  int64_t unknown() const { return unknown_; }

 private:
  Runner* real_ = nullptr;
  std::map<std::string, std::vector<MeasureResult>> results_;  // of each trace, in the order of asking
  std::map<std::string, size_t> times_;
  std::vector<std::string> asked_;
  std::map<ErrorCode, int64_t> failures_;
  int64_t unknown_ = 0;
};

}  // namespace fettle::bench
