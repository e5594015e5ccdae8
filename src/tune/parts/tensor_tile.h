#pragma once
// Register tiling whose every step is a tensor intrinsic: MetaSchedule's MultiLevelTilingWithIntrin (Shao et al.,
// Tensor Program Optimization with Probabilistic Programs, 2022, 3.2), with packing and padding found from the block.
//
//   for i: for j: for k: C[i, j] += i32(A[i, k]) * i32(B[k, j])     (B constant)
//   →
//   A', B' = A, B padded with zeros to multiples of the intrinsic's steps and lanes, where they are not
//   pack B' into panels [j / width][k / steps][width][steps]
//   for j0: for i0:
//     for k0: for i1 (unrolled): for jv (unrolled):
//       T[i1, jv] += A'[i, k0] · B'[j0, k0, jv]      by the intrinsic, on registers
//     for i1, jv: C[…] = f(T[…])        f: what elementwise consumers did
//
// Matrix products, batched ones, and convolutions: the latter directly where the channels lie together and divide, else
// through a copy of their windows (im2col).

#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"

namespace fettle {

/// Tiles `block` so, and decides under the address prefix that is set. Errors: E230 no tensor intrinsic of the target
/// computes it, or its extents are no constants · those of the steps
Result<Finished> tensor_tile(Schedule& s, const Target& target, Decider& decider, BlockRef block, int threads = 1);

}  // namespace fettle
