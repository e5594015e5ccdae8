// A search strategy of one's own: it forgets fewer and fewer of the best candidate's decisions, and draws them anew.

#include <algorithm>
#include <limits>
#include <set>

#include "base/random.h"
#include "database/database.h"
#include "generations/autotvm/template/template_def.h"
#include "matmul.h"
#include "measure/local_measurer.h"
#include "tune/describe.h"
#include "tune/search/search_strategy.h"
#include "tune/tuner.h"

using namespace fettle;

class Narrowing : public SearchStrategy {
 public:
  Narrowing(Workbench& bench, uint64_t seed) : bench_(bench), random_{seed, 1} {}
  std::string name() const override { return "narrowing"; }

  std::vector<const Candidate*> propose(size_t n) override {
    std::vector<const Candidate*> batch;
    for (size_t attempt = 0; attempt < 40 * n && batch.size() < n; ++attempt) {
      DecisionMap kept;
      for (const auto& [address, decision] : best_)
        if (random_.below(observed_ + 4) >= 4) kept[address] = decision;
      const Candidate* candidate = bench_.make(kept, random_.next());
      if (candidate && known_.insert(candidate->number).second) batch.push_back(candidate);
    }
    return batch;
  }
  void observe(std::span<const Observation> observations) override {
    for (const Observation& o : observations) {
      known_.insert(o.candidate->number);
      ++observed_;
      if (o.seconds < best_s_) {
        best_s_ = o.seconds;
        best_ = o.candidate->decisions;
      }
    }
  }

 private:
  Workbench& bench_;
  RandomStream random_;
  DecisionMap best_;
  double best_s_ = std::numeric_limits<double>::infinity();
  uint64_t observed_ = 0;
  std::set<int64_t> known_;
};

constexpr StrategyDef kNarrowing{"narrowing", "fewer and fewer decisions are drawn anew",
                                 [](Workbench& bench, uint64_t seed) -> std::unique_ptr<SearchStrategy> {
                                   return std::make_unique<Narrowing>(bench, seed);
                                 }};

Result<std::string> example() {
  const Target target = detect_host(1);
  FETTLE_TRY(const auto runner, LocalMeasurer::start({.target = target, .worker_path = FETTLE_WORKER}));
  const auto model = make_prediction_only();
  const auto database = make_memory_database();
  TuneOptions options{.max_trials = 12};
  options.space = &templates_space();
  options.strategy = &kNarrowing;
  options.describe = describe_by_lowering(std::make_shared<const Target>(target), 1);
  FETTLE_TRY(const TaskReport report, tune_task(matmul(64), target, 1, *database, *runner, *model, options));
  if (report.trials < 8) return fail(ErrorCode::E709, "too few candidates were proposed");
  return std::to_string(report.trials) + " trials, the best " + std::to_string(report.best_s * 1e6) + " us";
}

int main() { return tell(example()); }
