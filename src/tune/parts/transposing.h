#pragma once
// Schedules copies whose lanes would gather, because they read along another dimension than they write.

#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "tune/parts/structure.h"

namespace fettle {

/// A tile of a block that lowering transposes in registers (transpose_tiles in lower/passes): lanes along what is
/// written, unrolled columns along what is read.
struct TransposedTile {
  size_t lane = 0, column = 0;  // iterators of the block
  int64_t width = 0;            // of the tile, each way, where the iterators are as long
};

/// `lanes`: of the target's vectors; tiles have 4 to 16, of 16 bytes or more. Nothing where no load is contiguous along
/// another iterator than the store, or either has fewer than four iterations.
std::optional<TransposedTile> transposed_tile(const BlockStructure& block, int64_t lanes);

/// Cuts the block's loops (all of them, in order) into such tiles. `read_on`: from tile to tile along what is read,
/// else along what is written. Returns the loops around the tile, outermost first.
///   for j in 77: for c in 50: P[c, j] = K[j, c]
///   →  for c_0 in 4: for j_0 in 5: for c_1 in 16 unrolled: for j_1 in 16 vectorized: …
Result<std::vector<LoopRef>> cut_into_transposed_tiles(Schedule& s, const BlockStructure& block,
                                                       const TransposedTile& tile, const std::vector<LoopRef>& loops,
                                                       bool read_on);

/// A copy alone in its nest, in such tiles, perhaps its outermost loop parallel. False: it transposes nothing.
Result<bool> copy_in_transposed_tiles(Schedule& s, BlockRef copy, int64_t lanes, bool in_parallel);

}  // namespace fettle
