#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Ends a loop over blocks of keys before those that a mask hides from all queries of the iteration around.
///   for i0: for b in 8: …  M_block max= select(b*32 + k <= i0*16 + i, x, -inf)  …
///   →
///   for i0: for b in min(8, max((i0*16 + 15) // 32 + 1, 1)): …
/// The loop holds the states of an online_reduction with the size of a block, which a hidden block leaves as they are.
/// Its first iteration always runs: there the states begin. Costs nothing. What is hidden isn't read: a value that is
/// not finite, which would be weighed with 0, makes no NaN.
/// Errors: E201 annotated or not serial · E206 no such loop · E207 it does not hold the maximum of an online_reduction,
///         or the states that do not belong to it · E216 the mask does not end what the queries see
struct SkipHiddenArgs {
  LoopRef loop;
  static constexpr auto fields = std::tuple{field("loop", &SkipHiddenArgs::loop)};
};
Result<> skip_hidden(Schedule& s, const SkipHiddenArgs& args);

}  // namespace fettle
