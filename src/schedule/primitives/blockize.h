#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Makes one block of a loop and all beneath it, so that further steps see the tile as a unit.
///   for i0: for i1 in 4: block B(vi = i0*4 + i1): B[vi] = …
///   →
///   for i0: block B_o(vio = i0):  writes B[vio*4 +: 4]
///     for i1 in 4: block B(vi = vio*4 + i1): B[vi] = …
/// Each binding must be an outer part in whole tiles plus an inner part that runs densely through one tile. What the
/// predicate says of the loops outside alone becomes the new block's. Where loops of a reduction stay outside, the init
/// moves to the new block, as a nest over the tile; otherwise it stays inside.
///
/// loop: stands around one block, directly nested down to it; extents inside are constants
/// Returns the new block, named <block>_o. Costs nothing: lowering dissolves blocks.
/// Errors: E206 no such loop · E207 more than one block is beneath, or something stands between
///         E209 a binding is no tile part plus inner part, or the predicate does more than bound the iterators
///         E227 loops of a reduction stay outside, and below `loop` the block may run twice for one point
struct BlockizeArgs {
  LoopRef loop;
  static constexpr auto fields = std::tuple{field("loop", &BlockizeArgs::loop)};
};
Result<BlockRef> blockize(Schedule& s, const BlockizeArgs& args);

}  // namespace fettle
