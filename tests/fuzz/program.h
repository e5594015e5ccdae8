#pragma once
// Random loop programs that have one right result, bit for bit, in whatever order it is computed.

#include <cstdint>
#include <vector>

#include "ir/func.h"

namespace fettle::fuzz {

struct Program {
  Func func;
  std::vector<int64_t> ints;  // values of its integer parameters
};

/// The program of a seed: one to four stages out of elementwise work, broadcasts, transposes, reshapes, stencils,
/// paddings, reductions, matrix products, convolutions, gathers, scans, triangular guards, updates in place and results
/// written in two parts, over small and mostly odd extents; now and then one extent is an integer parameter, and an
/// input a constant or of free layout.
///
/// Elements are small integers, in whatever type, and no intermediate value leaves the integers that the type has
/// exactly; so sums may be reassociated and products contracted. (The sign of a zero may change, and is not compared.)
Program random_program(uint64_t seed);

/// Products of halves and of single precision, and reductions of long rows, over extents that fill tiles of tensor
/// units and accesses of several elements; elementwise work, transposes and sums behind them.
Program random_tile_program(uint64_t seed);

/// Nests whose loops' bounds depend on loops around them, of blocks that read and overwrite what earlier iterations
/// wrote: up to three loops deep, with blocks at every depth.
Program random_affine_program(uint64_t seed);

/// The least and the greatest value of input elements; i64 inputs are indices, and a little larger.
inline constexpr int kSmallest = -3, kLargest = 3;

}  // namespace fettle::fuzz
