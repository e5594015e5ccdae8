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

#include "tune/space/rule.h"

namespace fettle {

/// The same for a block whose `shared` outermost loops enclose other blocks, too: these loops stay as they are, serial.
Result<> tile_in_registers(RuleContext& ctx, BlockRef block, size_t shared);

}  // namespace fettle
