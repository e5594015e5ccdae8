#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Cuts a loop into consecutive loops, each with a copy of the body.
///   for i in e: S   →   for i_0 in [0, n0): S ; for i_1 in [n0, n0 + n1): S ; …
/// Conditions on the place in the loop (borders of a padded convolution, the first block of a reduction) become
/// constant in each part. Predicates that always hold there are dropped. So is the init of a reduction that has begun
/// in an earlier part.
///
/// sizes: iterations of the parts in order, each >= 1; at most one is kInfer = extent - others.
/// The longest part (the first of equals) keeps the names of its blocks, so references to them and to the loops beneath
/// stay good. The blocks of the other parts are named NAME_1, NAME_2, …
/// Returns one loop a part, in order; `loop` is consumed. Code grows by the body once a part.
/// Errors: E201 annotated or not serial · E202 a size < 1, or none · E203 two kInfer · E206 no such loop
///         E221 the extent is not a constant · E233 the sizes do not add up to the extent
struct LoopPartitionArgs {
  LoopRef loop;
  std::vector<IntRef> sizes;
  static constexpr auto fields =
      std::tuple{field("loop", &LoopPartitionArgs::loop), field("sizes", &LoopPartitionArgs::sizes)};
};
Result<std::vector<LoopRef>> loop_partition(Schedule& s, const LoopPartitionArgs& args);

}  // namespace fettle
