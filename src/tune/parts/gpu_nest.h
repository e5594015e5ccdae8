#pragma once
// A nest on a GPU: an element of the output for each thread, or a few. What has an order is done inside.
//
//   for i: for j: for k: C[i, j] += A[i, j, k]
//   →  for b blockIdx.x: for t threadIdx.x: [C_local[0] = 0; for k: C_local[0] += A[…]; C[…] = C_local[0]]

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"

namespace fettle {

/// Deals out the loops around the block whose iterations are independent. Where it shares loops with other blocks,
/// these are dealt out for all of them; where their iterations depend on one another, the host runs them, and launches
/// what is inside. A program of one element, or one whose steps follow one another, stays with one thread. Decides
/// under the address prefix that is set. Errors: those of the steps that come first
Result<Finished> gpu_nest(Schedule& s, const Target& target, Decider& decider, BlockRef block);

}  // namespace fettle
