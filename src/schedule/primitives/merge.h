#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Joins nests that follow one another into one.
///   for i in e: S0[i]   for j in e: S1[j]   →   for i in e: S0[i]; S1[j := i]
/// With loops deeper in, all levels above are joined as well:
///   merge([j, l]):  for i: for j: S0   for k: for l: S1   →   for i: for j: S0; S1[k := i, l := j]
/// loops: two or more, one of each nest in program order, equally deep below the place where the nests follow one
///        another, of equal ranges level by level, serial; directly nested down to them
/// Where a later nest needs what an earlier one makes, it must find it made in the same iteration.
/// Returns the innermost joined loop. The first nest's loops stay; those of the others are consumed. Costs nothing;
/// what the nests share stays in cache.
/// Errors: E201 annotated or not serial · E206 no such loop · E207 not equally deep, not next to one another, or of
///         different ranges · E227 an iteration needs what another one of the earlier nest makes, or would overwrite it
struct MergeArgs {
  std::vector<LoopRef> loops;
  static constexpr auto fields = std::tuple{field("loops", &MergeArgs::loops)};
};
Result<LoopRef> merge(Schedule& s, const MergeArgs& args);

}  // namespace fettle
