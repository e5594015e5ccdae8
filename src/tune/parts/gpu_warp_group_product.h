#pragma once
// Products of matrices by warp groups of sm_90a (wgmma). Blocks of threads go through tiles of the result. Of each, one
// warp group has the copy engine fill shared memory, steps ahead, and the others multiply what is there. Results go
// through shared memory, too, and from there by the copy engine where it can store them.
//
//   for i: for j: for k: C[i, j] += f32(A[i, k]) * f32(B[k, j]);   D[i, j] = f(C[i, j])
//   →  for tile in blockIdx.x {persistent}: for group in threadIdx.y:
//        for k0 {ring}: [A_shared, B_shared {bulk copies}; for k1: wgmma(A_shared, B_shared, C_fragment)]
//        for panel: [D_shared[…] = f(C_fragment[…]); D[…] = D_shared[…] {bulk copy}]

#include <optional>

#include "schedule/schedule.h"
#include "tune/parts/decider.h"
#include "tune/parts/gpu_warp_group_tiles.h"
#include "tune/parts/loops.h"

namespace fettle {

/// The product that the block is, where a part of this kind can compute it: factors of f16 or bf16, sums of f32, of
/// constant extents; rows of the factors lie a multiple of 16 bytes apart, and A's along the terms.
std::optional<ProductShape> warp_group_product(const Func& func, const BlockNode& block, const Target& target);

/// The product in tiles, the choice "tile" says in which; blocks that read its result element by element are taken
/// along. What tiles do not divide is filled up with zeros by the copy engine. Decides under the address prefix that is
/// set. Errors: E230 it is no such product · those of the steps
Result<Finished> gpu_warp_group_product(Schedule& s, const Target& target, Decider& decider, BlockRef block);

}  // namespace fettle
