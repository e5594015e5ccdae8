#pragma once
// Register tiling for rules whose blocks share loops with others.

#include "tune/space/rule.h"

namespace fettle {

/// Tiles `block` in registers (tune/parts/register_tile.h), and tells ctx.done. Its `shared` outermost loops
/// enclose other blocks, too: they stay as they are, serial.
Result<> tile_in_registers(RuleContext& ctx, BlockRef block, size_t shared);

}  // namespace fettle
