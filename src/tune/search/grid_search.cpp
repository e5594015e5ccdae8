#include <set>

#include "tune/search/search_strategy.h"

namespace fettle {
namespace {

class GridSearch : public SearchStrategy {
 public:
  explicit GridSearch(Workbench& bench) : bench_(bench) {}
  std::string name() const override { return "grid"; }

  std::vector<const Candidate*> propose(size_t n) override {
    std::vector<const Candidate*> batch;
    while (batch.size() < n && advance()) {
      const Candidate* candidate = bench_.make(point_, 0);
      if (candidate && seen_.insert(candidate->number).second) batch.push_back(candidate);
    }
    return batch;
  }

  void observe(std::span<const Observation> observations) override {
    for (const Observation& o : observations) seen_.insert(o.candidate->number);
  }

 private:
  // The next point in the order of addresses, the last one running fastest. What a point decides beyond those that are
  // set, since other decisions made it arise, starts at its first choice.
  bool advance() {
    if (done_) return false;
    if (started_ && !count_up()) {
      done_ = true;
      return false;
    }
    started_ = true;
    for (bool complete = false; !complete;) {
      complete = true;
      const auto decided = bench_.complete(point_, 0);
      if (!decided) break;  // no program there; what is known of the point stands
      DecisionMap point;
      for (const auto& [address, decision] : *decided) {
        const auto set = point_.find(address);
        if (set == point_.end()) complete = false;
        point[address] = set != point_.end() ? set->second : *bench_.decisions_at(address).begin();
      }
      point_ = std::move(point);
    }
    return true;
  }

  bool count_up() {
    while (!point_.empty()) {
      const auto last = std::prev(point_.end());
      const std::set<Decision>& choices = bench_.decisions_at(last->first);
      const auto next = choices.upper_bound(last->second);
      if (next != choices.end()) {
        last->second = *next;
        return true;
      }
      point_.erase(last);
    }
    return false;
  }

  Workbench& bench_;
  DecisionMap point_;
  bool started_ = false, done_ = false;
  std::set<int64_t> seen_;  // proposed or observed
};

}  // namespace

std::unique_ptr<SearchStrategy> make_grid_search(Workbench& bench) { return std::make_unique<GridSearch>(bench); }

}  // namespace fettle
