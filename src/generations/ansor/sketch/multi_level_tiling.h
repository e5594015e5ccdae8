#pragma once
// Multi-level tiling by a structure such as "SSRSRS" (Ansor, section 4.1; MetaSchedule's MultiLevelTiling).

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// Cuts the loops of a block into levels, one for each letter of `structure`: at S stand the loops over what is
/// spatial, at R those over the reduction, both in the order that they had.
///   "SSRSRS":  for i: for j: for k: C
///          →   for i_0: for j_0: for i_1: for j_1: for k_0: for i_2: for j_2: for k_1: for i_3: for j_3: C
/// The sizes are drawn by sample_perfect_tile, under addresses that end with the loop's name. Where an extent has no
/// divisors that fill vectors or registers (197 rows, 6625 columns), the two innermost spatial loops are tiled as if
/// they were a little longer, and surplus iterations are masked: see suitable_extent.
struct MultiLevelTiling {
  std::string structure = "SSRSRS";
  /// The largest factor of the innermost level; 0 for no limit.
  int64_t max_innermost = 64;
  /// Thread axes for the first levels, outermost first, each bound to the fused loops of its level ("SSSRRSRS" on a
  /// GPU: blockIdx.x, vthread.x, threadIdx.x). None for a CPU.
  std::vector<std::string> tile_binds = {};
  /// Extents without suitable divisors are rounded up, on CPUs (no tile_binds).
  bool rounds_up = true;

  MultiLevelTiling() = default;
  explicit MultiLevelTiling(std::string levels) : structure(std::move(levels)) {}

  /// The loops of each level, outermost first; those of a bound level are one.
  using Levels = std::vector<std::vector<LoopRef>>;
  /// Tiles the nest of `block`, which must have loops of its own (those around other blocks, too, stay as they are),
  /// each of which belongs to what is spatial or to the reduction. Errors: E206 no such block · E221 an extent is not a
  /// constant · E235 the structure does not fit the block, or is none · those of split, reorder, fuse and bind
  Result<Levels> apply(Schedule& s, BlockRef block) const;

 private:
  Result<std::vector<LoopRef>> rounded_up(Schedule& s, LoopRef loop, bool innermost, const BlockNode& block) const;
};

/// The extent, `extent` or a little more, whose divisors make good tiles: of the innermost spatial loop (`lanes` > 1)
/// such as fill vectors of that many lanes, of others some between 4 and 16.
///   of 16 lanes: 77 → 80, 90 → 96 (most divisors of 90 fill no vectors), 6625 → 6720
///   rows:        197 → 200, 19 → 20, 56 → 56
int64_t suitable_extent(int64_t extent, int64_t lanes);

/// "SSSRRSRS" over blocks, virtual threads and threads of a GPU.
MultiLevelTiling tiling_for_threads();

}  // namespace fettle
