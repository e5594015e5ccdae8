#include "tune/search/point_makers.h"

#include "base/check.h"
#include "ir/canonical.h"
#include "ir/text.h"
#include "schedule/primitives/sample_categorical.h"
#include "tune/search/workbench.h"

namespace fettle {
namespace {

// Makes points on one thread.
class Maker {
 public:
  Maker(std::unique_ptr<Space> space, Func workload, std::shared_ptr<const Target> target, int kernel_threads)
      : space_(std::move(space)),
        workload_(std::move(workload)),
        target_(std::move(target)),
        kernel_threads_(kernel_threads) {}

  MadePoint make(const PointRequest& request, const DescribeFn& describe) {
    MadePoint made;
    const auto schedule = space_->generate(workload_, target_, kernel_threads_, request.key,
                                           std::make_shared<const DecisionMap>(request.decisions));
    if (!schedule) return made;
    made.legal = true;
    made.decisions = schedule->decisions();
    made.steps = schedule->trace().size();
    note_categories(schedule->trace(), made);
    Func program = schedule->func();
    if (describe) {
      auto described = describe(*schedule);
      if (!described) return made;
      program = std::move(described->timed);
      made.features = std::move(described->features);
    }
    made.lowers = true;
    made.canonical = canonical_bytes(program);
    return made;
  }

 private:
  // Those that this thread has not handed over yet.
  void note_categories(const Trace& trace, MadePoint& made) {
    for (const auto& step : trace.steps)
      if (auto categories = known_.fresh(*step)) made.categories.push_back(std::move(*categories));
  }

  const std::unique_ptr<Space> space_;
  const Func workload_;
  const std::shared_ptr<const Target> target_;
  const int kernel_threads_;
  KnownCategories known_;
};

}  // namespace

std::optional<Categories> KnownCategories::fresh(const Step& step) {
  if (step.def != &sample_categorical_def) return std::nullopt;
  const auto& args = *static_cast<const SampleCategoricalArgs*>(step.args.get());
  uint64_t list = args.candidates.hash();
  for (const double probability : args.probabilities) list = hash_combine(list, probability > 0);
  if (!lists_[step.address].insert(list).second) return std::nullopt;
  Categories categories{step.address, {}};
  for (size_t i = 0; i < args.candidates.size(); ++i)
    if (args.probabilities[i] > 0) categories.likely.emplace_back(args.candidates.name(i));
  return categories;
}

PointMakers::PointMakers(const Space& space, const Func& workload, std::shared_ptr<const Target> target,
                         int kernel_threads, int threads)
    : space_(space), target_(std::move(target)), kernel_threads_(kernel_threads) {
  const std::string text = to_text(workload);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this, text] { work(text); });
}

PointMakers::~PointMakers() {
  {
    const std::scoped_lock lock(mutex_);
    end_ = true;
  }
  asked_.notify_all();
  threads_.clear();
}

void PointMakers::work(const std::string& workload) {
  auto func = parse_func(workload);
  FETTLE_CHECK_MSG(func.has_value(), "a workload's own text");
  Maker maker(space_.clone(), std::move(*func), target_, kernel_threads_);
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [&] { return end_ || next_ < requests_.size(); });
    if (end_) return;
    const size_t i = next_++;
    const PointRequest& request = requests_[i];
    const DescribeFn& describe = *describe_;
    const std::function<bool()>& gives_up = *gives_up_;
    lock.unlock();
    MadePoint made = gives_up && gives_up() ? MadePoint() : maker.make(request, describe);
    lock.lock();
    results_[i] = std::move(made);
    if (++finished_ == requests_.size()) done_.notify_one();
  }
}

std::vector<MadePoint> PointMakers::make(std::span<const PointRequest> requests, const DescribeFn& describe,
                                         const std::function<bool()>& gives_up) {
  if (requests.empty()) return {};
  std::unique_lock lock(mutex_);
  requests_ = requests;
  describe_ = &describe;
  gives_up_ = &gives_up;
  results_.assign(requests.size(), {});
  next_ = finished_ = 0;
  asked_.notify_all();
  done_.wait(lock, [&] { return finished_ == requests_.size(); });
  requests_ = {};
  next_ = 0;
  return std::move(results_);
}

}  // namespace fettle
