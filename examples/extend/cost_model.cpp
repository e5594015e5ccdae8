// A cost model of one's own: the analytic prediction, times what candidates of a like prediction were off by.

#include <cmath>
#include <map>

#include "cost/cost_model.h"
#include "database/database.h"
#include "generations/autotvm/template/template_def.h"
#include "matmul.h"
#include "measure/local_measurer.h"
#include "tune/describe.h"
#include "tune/tuner.h"

using namespace fettle;

class Corrected : public CostModel {
 public:
  std::string name() const override { return "corrected"; }
  Result<> update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) override {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!std::isfinite(seconds[i])) continue;  // it failed
      auto& [sum, n] = seen_[bucket(candidates[i])];
      sum += std::log(seconds[i] / candidates[i].predicted_seconds);
      ++n;
    }
    return {};
  }
  std::vector<double> predict(std::span<const CandidateFeatures> candidates) override {
    std::vector<double> seconds;
    for (const CandidateFeatures& c : candidates) {
      const auto found = seen_.find(bucket(c));
      const double off = found == seen_.end() ? 0 : found->second.first / found->second.second;
      seconds.push_back(c.predicted_seconds * std::exp(off));
    }
    return seconds;
  }
  Result<> save(const std::string& path) const override { return fail(ErrorCode::E702, "nothing to save", path); }
  Result<> load(const std::string& path) override { return fail(ErrorCode::E701, "nothing to load", path); }
  size_t known() const { return seen_.size(); }

 private:
  static int bucket(const CandidateFeatures& c) { return static_cast<int>(4 * std::log2(c.predicted_seconds)); }
  std::map<int, std::pair<double, int>> seen_;
};

Result<std::string> example() {
  const Target target = detect_host(1);
  FETTLE_TRY(const auto runner, LocalMeasurer::start({.target = target, .worker_path = FETTLE_WORKER}));
  Corrected model;
  const auto database = make_memory_database();
  TuneOptions options{.max_trials = 12};
  options.space = &templates_space();
  options.describe = describe_by_lowering(std::make_shared<const Target>(target), 1);
  FETTLE_TRY(const TaskReport report, tune_task(matmul(64), target, 1, *database, *runner, model, options));
  if (model.known() == 0) return fail(ErrorCode::E709, "the model learned nothing");
  return "learned of " + std::to_string(model.known()) + " kinds of candidates in " + std::to_string(report.trials) +
         " trials";
}

int main() { return tell(example()); }
