#pragma once
// Races: whether the iterations of a loop may run at once.

#include <optional>
#include <string>
#include <vector>

#include "analysis/sites.h"
#include "base/result.h"

namespace fettle {

/// Whether iterations of a loop may run in any order and at once. No iteration may read what another one writes, or
/// write it, unless both write the same value. Blocks that write one buffer do so in the same places in each iteration,
/// or in different ones in different iterations. A loop on which a reduce iterator depends is refused.
/// One of a scan or opaque iterator must be shown to be independent by isl (affine/exact.h).
/// For several questions about one program; `func` and `sites` must outlive it.
class ParallelCheck {
 public:
  ParallelCheck(const Func& func, const std::vector<BlockSite>& sites);
  /// E210, naming block and buffer.
  Result<> check(const ForNode& loop);

 private:
  /// By the ranges that an iteration touches, and the kinds of iterators.
  Result<> check_by_ranges(const ForNode& loop);
  /// It has one iteration at most, whatever the integer parameters are.
  bool runs_once(const ForNode& loop);
  struct Known {
    bool asked = false;
    std::string problem;                        // why no two instances may run at once; empty: they may …
    std::vector<const ForNode*> spatial_loops;  // … if they differ in one of these, where the block updates
    bool updates = false;
    bool injective_asked = false, injective = false;  // instances that differ in spatial_loops differ in iterators
    std::string why_not_injective;
    std::optional<Analyzer> analyzer;  // with the site bound
  };
  Known& known(size_t site);
  /// Fills in what is known of spatial_loops and injective.
  Known& known_instances(size_t site);
  /// Iterations of the loop write different elements.
  bool writes_apart(size_t site, const ForNode& loop);
  bool reads_what_came_before(size_t site, const Region& write, const Region& read, const ForNode& loop);
  /// The part of a region that one iteration of the loop touches; nothing if it has no bounds.
  std::optional<std::vector<Range>> touched(size_t site, const Region& region, const ForNode& loop);
  bool holds(const std::optional<std::vector<Range>>& outer, const std::optional<std::vector<Range>>& inner,
             const Buffer& buffer, Analyzer& analyzer) const;
  Analyzer& analyzer_at(size_t site);

  const Func& func_;
  const std::vector<BlockSite>& sites_;
  std::vector<Known> known_;
};

Result<> check_parallel(const Func& func, const ForNode& loop);

}  // namespace fettle
