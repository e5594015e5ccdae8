#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Makes one loop of directly nested ones.
///   for i in e0: for j in e1: S[i, j]   →   for i_j in e0*e1: S[i := i_j // e1, j := i_j % e1]
/// loops: one or more, outermost first as they are nested, each the whole body of the one before; serial.
/// The tail of the outermost loop that has one passes to the new loop.
/// Returns one loop; the others are consumed. Costs one pass over the body; the division and the remainder cost
/// instructions at run time where they cannot be strength-reduced (in a parallel loop they are paid once an iteration).
/// Errors: E201 annotated or not serial · E206 no such loop · E207 not directly nested, or not in that order
///         E208 the bounds of an inner loop depend on an outer one
struct FuseArgs {
  std::vector<LoopRef> loops;
  static constexpr auto fields = std::tuple{field("loops", &FuseArgs::loops)};
};
Result<LoopRef> fuse(Schedule& s, const FuseArgs& args);

}  // namespace fettle
