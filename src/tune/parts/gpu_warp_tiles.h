#pragma once
// Tilings of products for single warps (mma.sync), and how long they take.

#include <cstdint>
#include <string>
#include <vector>

#include "target/target.h"
#include "tune/parts/gpu_warp_group_tiles.h"

namespace fettle {

/// A block of warps makes rows x columns elements, each of its warps warp_rows x warp_columns, and copies `terms` terms
/// a step, steps ahead. The terms are split in `parts`, of which each has blocks of its own; their sums are added up by
/// a second launch.
struct WarpTiling {
  static constexpr int64_t kMostStages = 4;  // steps that are in shared memory at once

  int64_t rows = 0, columns = 0, terms = 0, warp_rows = 0, warp_columns = 0, parts = 1;

  int64_t warps() const { return rows / warp_rows * (columns / warp_columns); }
};

/// A number stands for a tiling: it is a candidate of the choice "tile".
WarpTiling warp_tiling(int64_t number);
/// "64x64x32 by 4 warps, 2 parts"
std::string describe(const WarpTiling& tiling);
/// Seconds that the product takes on the target's multiprocessors, as predicted.
double predicted_seconds(const WarpTiling& tiling, const ProductShape& shape, const Target& target);
/// Numbers of those that suit the shape, what is predicted to be the fastest first.
std::vector<int64_t> fastest_warp_tilings(const ProductShape& shape, const Target& target);

}  // namespace fettle
