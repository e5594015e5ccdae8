#include <set>

#include "generations/autotvm/search/tuners.h"

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
  // The next point of the tree of decisions. What a point decides beyond those that are set, since they made it arise,
  // is a level below them and starts at its first choice: so a level is done with before one above it moves, wherever
  // its address sorts.
  bool advance() {
    if (done_) return false;
    do {
      if (started_ && !count_up()) {
        done_ = true;
        return false;
      }
      started_ = true;
    } while (!extend());
    return true;
  }

  // Sets what the point leaves open. False where a level is not decided here and not at its first choice: the point is
  // the same program as that with its first choice.
  bool extend() {
    for (bool complete = false; !complete;) {
      complete = true;
      const auto decided = bench_.complete(point_, 0);
      if (!decided) return true;  // no program there; what is known of the point stands
      for (const auto& [address, decision] : *decided) {
        if (!point_.emplace(address, first_choice(address)).second) continue;
        levels_.push_back(address);
        complete = false;
      }
      if (!complete) continue;
      for (const std::string& address : levels_) {
        if (!decided->contains(address) && point_.at(address) != first_choice(address)) return false;
      }
    }
    return true;
  }

  bool count_up() {
    while (!levels_.empty()) {
      const auto level = point_.find(levels_.back());
      const std::set<Decision>& choices = bench_.decisions_at(level->first);
      const auto next = choices.upper_bound(level->second);
      if (next != choices.end()) {
        level->second = *next;
        return true;
      }
      point_.erase(level);
      levels_.pop_back();
    }
    return false;
  }

  Decision first_choice(const std::string& address) const { return *bench_.decisions_at(address).begin(); }

  Workbench& bench_;
  DecisionMap point_;
  std::vector<std::string> levels_;  // the addresses of point_, as they arose
  bool started_ = false, done_ = false;
  std::set<int64_t> seen_;  // proposed or observed
};

}  // namespace

std::unique_ptr<SearchStrategy> make_grid_search(Workbench& bench) { return std::make_unique<GridSearch>(bench); }

}  // namespace fettle
