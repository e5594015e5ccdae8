#include <set>

#include "base/random.h"
#include "tune/search/search_strategy.h"

namespace fettle {
namespace {

class RandomSearch : public SearchStrategy {
 public:
  RandomSearch(Workbench& bench, const RandomSearchOptions& options) : bench_(bench), options_(options) {}
  std::string name() const override { return "random"; }

  std::vector<const Candidate*> propose(size_t n) override {
    std::vector<const Candidate*> batch;
    for (int failures = 0; batch.size() < n && failures < options_.attempts;) {
      const Candidate* candidate = bench_.make({}, RandomStream{options_.seed, drawn_++}.next());
      if (candidate && seen_.insert(candidate->number).second) {
        batch.push_back(candidate);
        failures = 0;
      } else {
        ++failures;
      }
    }
    return batch;
  }

  void observe(std::span<const Observation> observations) override {
    for (const Observation& o : observations) seen_.insert(o.candidate->number);
  }

 private:
  Workbench& bench_;
  RandomSearchOptions options_;
  uint64_t drawn_ = 0;
  std::set<int64_t> seen_;
};

}  // namespace

std::unique_ptr<SearchStrategy> make_random_search(Workbench& bench, const RandomSearchOptions& options) {
  return std::make_unique<RandomSearch>(bench, options);
}

}  // namespace fettle
