#pragma once
// Space: the programs that a workload may become. It yields schedules whose sampled decisions have stable addresses, so
// that a search can edit the map address → decision and have the space re-run.

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "schedule/schedule.h"
#include "tune/parts/decider.h"

namespace fettle {

class Space {
 public:
  virtual ~Space() = default;
  virtual std::string name() const = 0;
  /// One point. Decisions found in `decisions` (by address, while still valid) are reused; the others are drawn from
  /// `source`: a seed, or what draws in another way (schedule/decision_source.h).
  virtual Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                    DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const = 0;
  /// Whether each decision that is drawn comes from the stream of `seed` and its address, and what is decided next
  /// depends on the decisions so far alone. Points that were made before are then known without being made again.
  virtual bool draws_by_address() const { return false; }
  /// The seed of the streams from which the point of `seed` is drawn at first. Points that are drawn anew, because the
  /// first was not legal, do not count. Nothing where points are not drawn as draws_by_address says.
  virtual std::optional<uint64_t> seed_of_first_drawing(uint64_t seed) const {
    return draws_by_address() ? std::optional(seed) : std::nullopt;
  }
  /// The same space for another thread, if all of a point's decisions always make the same program. Null: it is one
  /// thread's only.
  virtual std::unique_ptr<Space> clone() const { return nullptr; }
};

/// The space of the built-in rules (space/rules/): inlining, register tiling with packing, cache write and fused
/// epilogues for contractions; vectorized and parallel loops for everything else.
const Space& rule_space();

/// `space` without programs whose error bound (schedule/reformulation.h) is more than this, in units of epsilon. A
/// search of it chooses no algorithm that rounds much more than the program as it is written. What exceeds it is
/// drawn anew, unless decisions ask for it: E230. `space` must live as long.
std::unique_ptr<Space> within_error_bound(const Space& space, double max_error_bound);

/// The constructed default: the point of rule_space() whose decisions the analytic model (with `micro_kernels`: the
/// micro-kernel table) likes best, of those whose error bound is at most this; 0: as the program is written. Nothing is
/// measured. Takes milliseconds.
class MicroKernelTable;
Result<Schedule> default_schedule(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                  const MicroKernelTable* micro_kernels = nullptr,
                                  double max_error_bound = std::numeric_limits<double>::infinity());
/// Of the points that default_schedule chooses among, the one predicted to be the fastest of those that `accept` takes.
/// E230 where it takes none.
Result<Schedule> accepted_default(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                  double max_error_bound, const std::function<bool(const Schedule&)>& accept);

/// The constructed default with other choices where it prefers some: what to measure beside it. E230 where one of
/// `instead.values` is no candidate.
Result<Schedule> default_neighbour(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                   const PreferringDecider::Instead& instead);

}  // namespace fettle
