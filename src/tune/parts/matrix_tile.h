#pragma once
// Tiling for a unit that multiplies matrices of a few rows and columns (Intel's AMX), whose sums stay in registers of
// its own for the whole reduction.
//
//   for i: for j: for k: C[i, j] += f32(A[i, k]) * f32(B[k, j])     (B constant)
//   →
//   A', B' = A, B padded with zeros to multiples of what the unit takes, where they are not
//   pack B' into panels [j / 16][k / group][16][group]; A' perhaps into tiles [i / 16][k / steps][16][steps]
//   for j0: for i0:
//     for k0: for i1 in 2 (unrolled): for j1 in 2 (unrolled):
//       T[i1, j1] += A'[i0, i1, k0] · B'[j0, j1, k0]               by the intrinsic, T in scope "tile"
//     L = T                                                        by the intrinsic: to the first-level cache
//     for i1, j1: C[…] = f(L[…])        f: what elementwise consumers did, and the padding dropped

#include "tune/parts/tensor_tiling.h"

namespace fettle {

/// Tiles the block that `tiling` has looked at; product.of_matrices(). E230 it does not fit · those of the steps
Result<Finished> matrix_tile(TensorTiling tiling);

}  // namespace fettle
