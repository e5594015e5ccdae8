#pragma once
// Workbench: turns decisions into candidates, each distinct program once, and ranks them by what a cost model predicts.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "target/target.h"
#include "tune/search/candidate.h"
#include "tune/space/space.h"

namespace fettle {

/// The description of a scheduled program that the cost model uses; an error: the program has no lowering.
using DescribeFn = std::function<Result<CandidateFeatures>(const Func& scheduled)>;

class Workbench {
 public:
  /// `describe` may be empty: then nothing is predicted, and candidates rank in the order of their making.
  Workbench(const Space& space, Func workload, std::shared_ptr<const Target> target, int threads, CostModel& model,
            DescribeFn describe);

  /// The candidate of this point of the space: `decisions` where they are valid, the others drawn, keyed by `key`.
  /// Null where the space has no program there. An equal program made before is that very candidate.
  const Candidate* make(const DecisionMap& decisions, uint64_t key);
  /// As above, for a schedule made elsewhere, such as the constructed default.
  const Candidate* add(const Schedule& schedule);

  /// Predicted seconds of each, by the cost model as it is now.
  std::vector<double> predict(std::span<const Candidate* const> candidates);

  /// Every decision met at `address` in any candidate, ascending.
  const std::set<Decision>& decisions_at(const std::string& address) const;

  size_t size() const { return candidates_.size(); }
  const Candidate& candidate(int64_t number) const { return candidates_[static_cast<size_t>(number)]; }
  /// Points asked for so far, whether or not they were new.
  int64_t points() const { return points_; }

 private:
  bool same_program(const Candidate& known, const Func& func) const;

  const Space& space_;
  Func workload_;
  std::shared_ptr<const Target> target_;
  int threads_;
  CostModel& model_;
  DescribeFn describe_;
  std::deque<Candidate> candidates_;  // addresses stay
  std::unordered_multimap<Digest, int64_t> by_hash_;
  std::map<DecisionMap, int64_t> by_decisions_;
  std::map<std::string, std::set<Decision>> domains_;
  int64_t points_ = 0;
};

}  // namespace fettle
