#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Puts a loop of one iteration around a loop or a block.
///   block C(…): …   →   for u in 1: block C(…): …
/// It gives a block without loops one that can be bound, or be the place of a compute_at. Costs nothing: lowering drops
/// it.
/// Returns the new loop.
/// Errors: E206 no such loop or block · E207 the block is the root · E225 `target` is neither
struct AddUnitLoopArgs {
  StepRef target;  // a LoopRef or a BlockRef
  static constexpr auto fields = std::tuple{field("target", &AddUnitLoopArgs::target)};
};
Result<LoopRef> add_unit_loop(Schedule& s, const AddUnitLoopArgs& args);

}  // namespace fettle
