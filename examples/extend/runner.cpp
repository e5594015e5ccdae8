// A runner of one's own: candidates are built and called in this very process. What does not build is a failed
// candidate.

#include <algorithm>
#include <chrono>

#include "database/database.h"
#include "matmul.h"
#include "measure/local_kernel.h"
#include "measure/runner.h"
#include "tune/describe.h"
#include "tune/tuner.h"

using namespace fettle;

class InThisProcess : public Runner {
 public:
  explicit InThisProcess(Target target) : target_(std::move(target)) {}

  Result<> set_workload(const Func& workload, const WorkloadOptions&) override {
    workload_ = workload;
    return {};
  }
  Result<std::vector<MeasureResult>> measure(std::span<const std::string> traces,
                                             const MeasureRequest& request) override {
    std::vector<MeasureResult> results;
    for (const std::string& trace : traces) {
      MeasureResult result;
      if (const Result<double> seconds = time(trace)) {
        result.median_s = result.min_s = *seconds;
        result.repeats = 10;
      } else {
        result.error = ErrorCode::E401;
        result.message = seconds.error().to_string();
        ++failures_[result.error];
      }
      results.push_back(result);
      if (request.on_result) request.on_result(results.size() - 1, result);
    }
    return results;
  }
  const std::map<ErrorCode, int64_t>& failures() const override { return failures_; }

 private:
  Result<double> time(const std::string& trace) const {
    FETTLE_TRY(const ParsedTrace steps, parse_trace(trace));
    Schedule schedule(workload_);
    FETTLE_TRY_VOID(replay(schedule, steps));
    FETTLE_TRY(LocalKernel kernel, LocalKernel::build(schedule.func(), target_));
    double best = 1e9;
    for (int i = 0; i < 10; ++i) {
      const auto start = std::chrono::steady_clock::now();
      FETTLE_TRY_VOID(kernel.run());
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  }

  Target target_;
  Func workload_;
  std::map<ErrorCode, int64_t> failures_;
};

Result<std::string> example() {
  const Target target = detect_host(1);
  InThisProcess runner(target);
  const auto model = make_prediction_only();
  const auto database = make_memory_database();
  TuneOptions options{.max_trials = 8};
  options.describe = describe_by_lowering(std::make_shared<const Target>(target), 1);
  FETTLE_TRY(const TaskReport report, tune_task(matmul(64), target, 1, *database, runner, *model, options));
  if (report.trials < 8 || report.best_s <= 0) return fail(ErrorCode::E407, "nothing was timed");
  return std::to_string(report.trials) + " trials, the best " + std::to_string(report.best_s * 1e6) + " us";
}

int main() { return tell(example()); }
