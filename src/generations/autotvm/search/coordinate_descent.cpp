#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "generations/autotvm/search/tuners.h"
#include "tune/search/moves.h"

namespace fettle {
namespace {

class CoordinateDescent : public SearchStrategy {
 public:
  CoordinateDescent(Workbench& bench, const DescentOptions& options) : bench_(bench), options_(options) {}
  std::string name() const override { return "coordinate descent"; }

  std::vector<const Candidate*> propose(size_t n) override {
    std::vector<const Candidate*> batch;
    while (batch.size() < n) {
      if (waiting_.empty()) {
        // All around the center is known before it moves.
        if (!batch.empty() || !look_around()) break;
        continue;
      }
      const Candidate* candidate = waiting_.front();
      waiting_.pop_front();
      if (seen_.insert(candidate->number).second) batch.push_back(candidate);
    }
    return batch;
  }

  void observe(std::span<const Observation> observations) override {
    for (const Observation& o : observations) {
      seen_.insert(o.candidate->number);
      if (std::isfinite(o.seconds) && (!best_ || o.seconds < best_seconds_ * (1 - options_.progress))) {
        best_ = o.candidate;
        best_seconds_ = o.seconds;
      }
    }
  }

 private:
  // Fills waiting_ with what lies around the best; false: nothing is left there.
  bool look_around() {
    if (!best_) {
      for (int i = 0; i < options_.starts; ++i) {
        const Candidate* start = bench_.make({}, RandomStream{options_.seed, n_starts_++}.next());
        if (start && !seen_.contains(start->number)) {
          waiting_.push_back(start);
          return true;
        }
      }
      return false;
    }
    if (center_ == best_) return false;
    const Candidate* before = center_;
    center_ = best_;
    uint64_t key = 0;
    const auto wait_for = [&](const DecisionMap& decisions) {
      const Candidate* candidate = bench_.make(
          decisions, hash_combine(options_.seed, hash_combine(static_cast<uint64_t>(center_->number), key++)));
      if (candidate && !seen_.contains(candidate->number)) waiting_.push_back(candidate);
    };
    if (before) wait_for(further(*before, *center_));
    for (const DecisionMap& decisions : next_along_each_axis(bench_, center_->decisions)) wait_for(decisions);
    return !waiting_.empty();
  }

  // As far again in the direction that brought progress.
  DecisionMap further(const Candidate& from, const Candidate& to) const {
    DecisionMap decisions = to.decisions;
    for (auto& [address, decision] : decisions) {
      const auto old = from.decisions.find(address);
      if (old == from.decisions.end() || old->second == decision) continue;
      const std::set<Decision>& choices = bench_.decisions_at(address);
      auto at = choices.find(decision);
      if (at == choices.end()) continue;
      if (old->second < decision) {
        if (++at != choices.end()) decision = *at;
      } else if (at != choices.begin()) {
        decision = *--at;
      }
    }
    return decisions;
  }

  Workbench& bench_;
  DescentOptions options_;
  uint64_t n_starts_ = 0;
  const Candidate* center_ = nullptr;  // around which everything is known or waiting
  const Candidate* best_ = nullptr;
  double best_seconds_ = 0;
  std::deque<const Candidate*> waiting_;
  std::set<int64_t> seen_;  // proposed or observed
};

}  // namespace

std::unique_ptr<SearchStrategy> make_coordinate_descent(Workbench& bench, const DescentOptions& options) {
  return std::make_unique<CoordinateDescent>(bench, options);
}

}  // namespace fettle
