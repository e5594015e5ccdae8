#pragma once
// The built-in rules, one a source; each source says what it does. Their order is space_rules().

#include "tune/space/rule.h"

namespace fettle {

extern const Rule winograd_rule_def;
extern const Rule strip_fusion_def;
extern const Rule multi_level_tiling_with_intrin_def;
extern const Rule row_fusion_def;
extern const Rule register_tiling_def;
extern const Rule loop_nest_def;

/// Tiles `block` in registers (tune/parts/register_tile.h), and notes what is done. Its `shared` outermost loops enclose
/// other blocks, too: they stay as they are, serial.
Result<> tile_in_registers(RuleContext& ctx, BlockRef block, size_t shared);

/// Chooses, at the address "winograd/BLOCK/outputs", the outputs of a tile of the convolution by Winograd, or 0 for the
/// convolution as it is written: where it may pay (winograd_convolution), on a target with vectors, with an error bound
/// within ctx.max_error_bound. The rule takes the blocks that then stand for it.
Result<> choose_winograd(RuleContext& ctx);
/// What that may be, to construct points of: tiles, over the whole image or in strips of few rows of them.
std::vector<PreferringDecider::Instead> winograd_points(const Func& workload);

}  // namespace fettle
