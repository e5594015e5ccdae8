#pragma once
// Products of matrices by the tensor cores of a GPU, warp by warp (mma.sync): factors of 16 bits, sums in f32.
//
//   for i: for j: for k: C[i, j] += f32(A[i, k]) * f32(B[k, j]);   D[i, j] = f(C[i, j])
//   →  for b (blocks): for w (warps):
//        for k0 (pipeline): A_shared, B_shared; for k1: A_fragment, B_fragment; C_fragment += A_fragment * B_fragment
//        D[…] = f(C_fragment[…])
// Where there are few tiles, the terms are split among blocks, and a second launch adds the parts up.

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"
#include "tune/parts/structure.h"

namespace fettle {

/// A product, or a convolution that has become one, of f16 or bf16 with sums in f32, on a target with tensor cores.
bool suits_tensor_cores(const Target& target, const BlockStructure& block);

/// The product in tiles of warps; blocks that read its result element by element are taken along. What tiles do not
/// divide is filled up with zeros where it is read into shared memory. Decides under the address prefix that is set.
/// Errors: E230 it is no such product, or has extents that are no constants · those of the steps
Result<Finished> gpu_tensor_product(Schedule& s, const Target& target, Decider& decider, BlockRef block);

}  // namespace fettle
