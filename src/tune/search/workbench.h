#pragma once
// Workbench: turns decisions into candidates, each distinct program once, and ranks them by what a cost model predicts.

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "target/target.h"
#include "tune/search/candidate.h"
#include "tune/search/known_points.h"
#include "tune/search/point_makers.h"
#include "tune/space/space.h"

namespace fettle {

/// A scheduled program as the cost model sees it.
struct Description {
  CandidateFeatures features;
  /// The lowered entry, with loops still to be unrolled and micro-kernels by their names: what runs and is timed.
  /// Programs that differ in their prologue alone are one candidate.
  Func timed;
};
class Workbench {
 public:
  /// `describe` may be empty: then nothing is predicted, and candidates rank in the order of their making.
  /// An error of it: the program has no lowering. With more search threads than one it is called by several at once.
  /// Their number changes how long candidates take to make, never which they are.
  Workbench(const Space& space, Func workload, std::shared_ptr<const Target> target, int threads, CostModel& model,
            DescribeFn describe, int search_threads = 1);

  /// The candidate of this point of the space: `decisions` where they are valid, the others drawn, keyed by `key`.
  /// Null where the space has no program there. Of equal programs there is one candidate, the first.
  const Candidate* make(const DecisionMap& decisions, uint64_t key);
  /// As make() for each in turn, but for what the points have to do with each other: none sees the others' choices.
  std::vector<const Candidate*> make_all(std::span<const PointRequest> requests);
  /// For strategies that rank by predict() alone: while the model asks for no prediction (CostModel::asks_prediction),
  /// candidates are described by the function that was given for that, if any.
  void rank_by_model_alone() { ranks_by_model_alone_ = true; }
  void describe_unpredicted_by(DescribeFn describe) { describe_unpredicted_ = std::move(describe); }
  /// From now on no point is made while `gives_up` says so: a search is to end soon. Several threads call it. Empty:
  /// all are made.
  void give_up_when(std::function<bool()> gives_up) { gives_up_ = std::move(gives_up); }
  /// Ends the search threads until make_all() wants them again.
  void rest() { makers_.reset(); }
  /// All decisions of that point, and nothing more. Nothing where the space has no program there.
  std::optional<DecisionMap> complete(const DecisionMap& decisions, uint64_t key);
  /// As make, for a schedule made elsewhere, such as the constructed default. It is never forgotten.
  const Candidate* add(const Schedule& schedule);

  /// As add, for a kernel that is not Fettle's own (codegen/kernel_source.h): nothing is predicted of it, and no search
  /// meets it.
  const Candidate* add_offered(const Schedule& schedule);

  /// The text of its trace. Few are asked for it, so it is written then.
  const std::string& trace(const Candidate& candidate) const;

  /// Gives up all that is known of it but that its decisions were met, from which nothing is made again. Of 100,000
  /// candidates made, a search then holds the few that it still may want.
  void forget(const Candidate* candidate);

  /// Predicted seconds of each, by the cost model as it is now.
  std::vector<double> predict(std::span<const Candidate* const> candidates);

  /// Whether predict() ranks by more than the prediction that candidates come with (CostModel::can_rank).
  bool can_rank() const { return !describe_ || model_.can_rank(); }

  /// The decisions known to be possible at `address`: all of a categorical one, else those met so far.
  const std::set<Decision>& decisions_at(const std::string& address) const;

  size_t size() const { return candidates_.size(); }
  /// One that was not forgotten.
  const Candidate& candidate(int64_t number) const { return *candidates_[static_cast<size_t>(number)]; }
  /// Points asked for so far, whether or not they were new.
  int64_t points() const { return points_; }
  /// Those of them that were made, since they were not known.
  int64_t made() const { return made_; }

 private:
  struct Choices {
    std::set<Decision> known;
  };

  const Candidate* add_made(const Schedule& schedule);
  const Candidate* add_made_elsewhere(MadePoint made);
  /// What is known of the point without making it: null inside where it is no candidate (any more).
  std::optional<const Candidate*> known(const DecisionMap& decisions) const;
  /// Of this program; where there is one already, that.
  const Candidate* add_candidate(DecisionMap decisions, size_t steps, std::string canonical,
                                 CandidateFeatures features);
  Result<Schedule> make_again(const Candidate& known) const;
  void note_choices(const Step& step);
  const DescribeFn& describe_now() const {
    return ranks_by_model_alone_ && describe_unpredicted_ && !model_.asks_prediction() ? describe_unpredicted_
                                                                                       : describe_;
  }

  const Space& space_;
  Func workload_;
  std::shared_ptr<const Target> target_;
  int threads_;
  CostModel& model_;
  DescribeFn describe_, describe_unpredicted_;
  bool ranks_by_model_alone_ = false;
  std::function<bool()> gives_up_;
  std::vector<std::unique_ptr<Candidate>> candidates_;  // null: forgotten
  std::unordered_multimap<Digest, int64_t> by_program_;
  std::unordered_map<Digest, int64_t> by_decisions_;  // -1: it has no lowering, or was forgotten
  KnownPoints known_points_;                          // ends: as in by_decisions_
  std::unordered_map<std::string, Choices> choices_;
  KnownCategories categories_;
  std::set<int64_t> never_forgotten_;
  int64_t points_ = 0, made_ = 0;
  const int search_threads_;
  const bool can_be_cloned_;             // the space; then traces are written when they are asked for
  std::unique_ptr<PointMakers> makers_;  // once several points are asked for at once
};

}  // namespace fettle
