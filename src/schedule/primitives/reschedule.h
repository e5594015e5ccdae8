#pragma once

#include "schedule/schedule.h"

namespace fettle {

// Annotation of a block: names of buffers that it writes, whose elements are read in other iterations of the loops
// around. Lowering leaves such a buffer outside of these loops.
inline constexpr const char* kKeptBuffersKey = "kept_buffers";

/// Runs the instances of blocks in the order that affine maps of their loops tell.
///   for i in n: for j in i: S(i, j)
///   →  reschedule([S], ["(i, j) -> (j, i)"])
///   for c0 in n - 1: for c1 in c0 + 1 +: n - 1 - c0: S(i := c1, j := c0)
/// Loops change places whose bounds depend on each other, nests are joined with a shift or taken apart, and an
/// iteration space is skewed, so that tiles of it keep all dependences:
///   reschedule([S], ["(t, i) -> (t, t + i)"], factors=[8, 32])
/// Instances run by what their maps say, compared from the first output on. Blocks share loops as far as their outputs
/// do. Dependences are found by isl, from all that the blocks read and write, and each must be kept; updates of a
/// reduction may change places, as may minima and maxima of integers. After Verdoolaege, "isl: An Integer Set Library"
/// (ICMS 2010), and Grosser, Verdoolaege and Cohen, "Polyhedral AST generation is more than scanning polyhedra" (TOPLAS
/// 2015).
///
/// blocks: all that stand in consecutive statements of one sequence, or in one loop
/// maps: one for each block, from the innermost loops around it, as many as it has inputs, to the order. The loops
///       outside of these stay. Missing outputs are 0
/// factors: tile sizes of the first outputs: loops over tiles come first, then all loops within a tile
/// full_tiles: whether whole tiles, whose loops have constant extents, are parted from the partial ones
/// apart: the numbers of outputs, behind those that are tiled, whose values get loops of their own: few ones, as a
///       phase has
/// Returns the loops around the first block: those over tiles, then one for each output. One of which all blocks have a
/// single iteration is not made. A block that has to stand in several places keeps its name where most of the loops
/// around it have constant extents; the others are NAME_1, NAME_2, …
/// Errors: E201 a loop is annotated or not serial · E202 a factor < 1 · E206 no such block · E207 the blocks do not
///         stand together, or share their statements with others · E209 something is not affine, or too hard for isl
///         E227 a dependence would be broken · E241 maps and blocks, or factors and outputs, do not fit together
struct RescheduleArgs {
  std::vector<BlockRef> blocks;
  std::vector<IndexMap> maps;
  std::vector<IntRef> factors;
  bool full_tiles = false;
  std::vector<int64_t> apart;
  static constexpr auto fields =
      std::tuple{field("blocks", &RescheduleArgs::blocks), field("maps", &RescheduleArgs::maps),
                 field("factors", &RescheduleArgs::factors), field("full_tiles", &RescheduleArgs::full_tiles),
                 field("apart", &RescheduleArgs::apart)};
};
Result<std::vector<LoopRef>> reschedule(Schedule& s, const RescheduleArgs& args);

}  // namespace fettle
