#pragma once
// Register tiling of reductions: accumulators of rows x vectors stay in registers for the whole reduction.
//
//   for i: for j: for k: C[i, j] += A[i, k] * B[k, j]     (B constant)
//   →
//   pack B into panels of `vectors` x lanes columns
//   for j0: for i0:
//     for k: for i1 (unrolled): for jv (unrolled): for jl (vectorized): T[…] += A[…] * B'[…]
//     for jv, i1, jl: C[…] = f(T[…])        f: what elementwise consumers did
//
// Any reduction with an init and one store fits, if a spatial iterator can fill vectors: matrix products in any
// orientation, convolutions in any layout, depthwise ones, pooling, sums over outer dimensions.

#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"

namespace fettle {

struct RegisterTileOptions {
  int threads = 1;
  size_t shared = 0;  // outermost loops that enclose other blocks, too: they stay as they are, serial
};

/// Tiles `block` in registers, and decides under the address prefix that is set. All extents may be open: tiles are
/// those of typical ones, the rows and lanes of the last tile are told when the program runs.
/// Errors: E230 no iterator fills vectors, or no tile fits · those of the steps
Result<Finished> register_tile(Schedule& s, const Target& target, Decider& decider, BlockRef block,
                               const RegisterTileOptions& options = {});

/// Whether it is a reduction that register_tile could take, as far as its accesses say.
bool fits_register_tile(const Func& func, const BlockNode& block);

}  // namespace fettle
