#pragma once
// For tests: a machine's description, and a runner that measures nothing.

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/build.h"
#include "measure/protocol.h"
#include "measure/runner.h"
#include "remote/messages.h"

namespace fettle::testing {

inline Target some_target() { return parse_target("x86-64-avx512").value(); }

inline wire::Machine some_machine() {
  wire::Machine machine;
  machine.set_target(target_to_json(some_target()));
  machine.set_threads(2);
  machine.set_versions(program_versions());
  return machine;
}

inline MeasureResult timed(double seconds) {
  MeasureResult result;
  result.median_s = result.min_s = seconds;
  result.half_width = 0.01;
  result.repeats = 5;
  return result;
}

/// Says of each trace what `outcome` says.
class ScriptedRunner : public Runner {
 public:
  std::function<Result<>(const Func&)> accepts = [](const Func&) -> Result<> { return {}; };
  std::function<MeasureResult(const std::string& trace, const MeasureRequest& request)> outcome =
      [](const std::string& trace, const MeasureRequest&) { return timed(1e-3 * static_cast<double>(trace.size())); };

  Result<> set_workload(const Func& workload, const WorkloadOptions&) override { return accepts(workload); }
  Result<std::vector<MeasureResult>> measure(std::span<const std::string> traces,
                                             const MeasureRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      batches_.emplace_back(traces.begin(), traces.end());
    }
    std::vector<MeasureResult> results;
    for (const std::string& trace : traces) {
      MeasureResult result;
      if (request.should_stop && request.should_stop())
        result.error = ErrorCode::E407;
      else
        result = outcome(trace, request);
      if (request.on_result) request.on_result(results.size(), result);
      results.push_back(result);
    }
    return results;
  }
  const std::map<ErrorCode, int64_t>& failures() const override { return failures_; }

  std::vector<std::vector<std::string>> batches() const {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::vector<std::string>> batches_;
  std::map<ErrorCode, int64_t> failures_;
};

}  // namespace fettle::testing
