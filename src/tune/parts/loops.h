#pragma once
// Questions that every part asks of a block and its loops.

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/extent.h"

namespace fettle {

/// Blocks that need nothing more of whoever schedules them, by name.
using Finished = std::vector<std::string>;

/// As long as the schedule's program is.
Result<const BlockNode*> block_node(const Schedule& s, BlockRef block);
/// The loops around a block, outermost first: those that move what is spatial, or nothing, and those of its reduction.
struct LoopsByKind {
  std::vector<LoopRef> spatial, reduction;
};
Result<LoopsByKind> loops_by_kind(Schedule& s, BlockRef block);
Result<Extent> extent_of_loop(const Schedule& s, LoopRef loop);
/// 0 where it is no constant.
Result<int64_t> loop_extent(const Schedule& s, LoopRef loop);
/// Of a vector of the target; 1 where it has none.
inline int64_t lanes_of(const Target& target, DType dtype) {
  return std::max(1, target.vector_lanes(dtype.element_bytes()));
}

}  // namespace fettle
