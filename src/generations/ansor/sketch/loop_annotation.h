#pragma once
// Decides what becomes of the loops of a tiled nest. The outermost run in parallel, the innermost become lanes, and
// reductions are cleared by nests of their own. Ansor's annotation (section 4.2) and MetaSchedule's post-processors
// share it.

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// The nests below the root block, in program order: of each the block with most loops around it, by name; of several
/// the one that reduces, since what copies its operands may have been moved further in.
std::vector<std::string> nest_blocks(const Func& func);

/// The outermost loops of the block's nest that can run in parallel: each is serial, right inside the one before, and
/// moves nothing but what is spatial, in every block below. At least one loop of the nest is left out.
Result<std::vector<LoopRef>> outer_spatial_loops(Schedule& s, BlockRef block);
/// The innermost loops around the block that can become lanes: each is serial, right around the next, and moves nothing
/// but what is spatial; outermost first.
Result<std::vector<LoopRef>> inner_spatial_loops(Schedule& s, BlockRef block);

/// The block reduces, no loop of the reduction's output is inside the reduction, and the innermost of them walks
/// through all memory in steps of one: lanes along it are worth having.
bool wants_lanes_inside(const Func& func, const BlockNode& block);
/// Brings a part of the innermost spatial loop into the reduction, at most `most` iterations:
///   for i: for j: for k: C   →   for i: for j_0: for k: for j_1: C
/// Returns that part. Errors: those of split and reorder
Result<LoopRef> bring_lanes_inside(Schedule& s, BlockRef block, int64_t most);

/// The product of the loops' extents; 0 where one is not a constant.
Result<int64_t> extent_of_loops(const Schedule& s, const std::vector<LoopRef>& loops);
/// One loop of all of them, fused where they are several.
Result<LoopRef> fused_loop(Schedule& s, const std::vector<LoopRef>& loops);

/// The loops of the block's reduction, which become the innermost, as one.
///   for k: for i: for l: C   →   for i: for k_l: C
/// Errors: E235 there is none · those of reorder and fuse
Result<LoopRef> fused_reduction(Schedule& s, BlockRef block);
/// The same, cut in two; the sizes are drawn by sample_perfect_tile, under an address that ends with the loop's name.
Result<std::vector<LoopRef>> cut_reduction(Schedule& s, BlockRef block, int64_t max_innermost);

/// Gives the init of each reduction below the root a nest of its own, before the outermost loop of the reduction
/// (decompose_reduction). Reductions for which that is refused stay as they are.
Result<> decompose_reductions(Schedule& s);

}  // namespace fettle
