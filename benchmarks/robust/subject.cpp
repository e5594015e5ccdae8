#include "robust/subject.h"

#include <fmt/format.h>

#include "base/check.h"
#include "ir/text.h"

namespace fettle::bench {

Func small_product(int m, int n, int k) {
  const auto func = parse_func(fmt::format(R"(
func product(A: f32[{0}, {2}], B: f32[{2}, {1}] constant, C: f32[{0}, {1}] output):
  for i in {0}:
    for j in {1}:
      for k in {2}:
        block C(vi: spatial[{0}] = i, vj: spatial[{1}] = j, vk: reduce[{2}] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)",
                                           m, n, k));
  FETTLE_CHECK_MSG(func.has_value(), func ? "" : func.error().to_string());
  return *func;
}

LocalMeasurerOptions small_measurer(const std::filesystem::path& folder) {
  LocalMeasurerOptions options;
  options.target = detect_host(1);
  options.threads = 1;
  options.workers = 1;
  options.worker_path = FETTLE_BINARY_DIR "/bin/fettle-worker";
  options.cache_folder = folder / "objects";
  options.memory_bytes = 256 << 20;
  return options;
}

TuneOptions small_tuning() {
  TuneOptions options;
  options.first_points = 48;
  options.timing.max_seconds = 0.004;
  options.timing.max_samples = 12;
  return options;
}

Result<> ReplayingRunner::set_workload(const Func& workload, const WorkloadOptions& options) {
  return real_ ? real_->set_workload(workload, options) : Result<>();
}

Result<std::vector<MeasureResult>> ReplayingRunner::measure(std::span<const std::string> traces,
                                                            const MeasureRequest& request) {
  asked_.insert(asked_.end(), traces.begin(), traces.end());
  if (real_) {
    FETTLE_TRY(std::vector<MeasureResult> results, real_->measure(traces, request));
    for (size_t i = 0; i < traces.size(); ++i)
      if (results[i].error != ErrorCode::E407) results_[traces[i]].push_back(results[i]);
    return results;
  }
  std::vector<MeasureResult> results;
  for (const std::string& trace : traces) {
    MeasureResult& result = results.emplace_back();
    const auto& known = results_[trace];
    const size_t turn = times_[trace]++;
    if (request.should_stop && request.should_stop()) {
      result.error = ErrorCode::E407;
    } else if (turn < known.size()) {
      result = known[turn];
    } else {
      ++unknown_;
      result.error = ErrorCode::E406;
    }
    if (request.on_result) request.on_result(results.size() - 1, result);
  }
  return results;
}

}  // namespace fettle::bench
