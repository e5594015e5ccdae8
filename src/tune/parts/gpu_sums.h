#pragma once
// Reductions on a GPU that each thread does by itself, of one result or of neighbours.
//
//   for j: for k: S[j] += X[k, j];  for j: Y[j] = f(S[j])
//   →  for b blockIdx.x: for t threadIdx.x: S_local[4] = 0
//        for k0: [X_local[8, 4] = X[…], one access a row; for k1 in 8: for v in 4: S_local[v] += X_local[k1, v]]
//        for v in 4: Y[…] = f(S_local[v])

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"
#include "tune/parts/tile_steps.h"

namespace fettle {

/// Deals out `outside`, the independent loops around a reduction, adjacent, outermost first. Several terms are
/// unrolled, so that their loads are in flight together. `takes_epilogue`: the one block that reads the results,
/// element by element, becomes part of the nest. Decides under the address prefix that is set. Errors: E230 there is no
/// such block · the steps'
Result<Finished> gpu_sums(Schedule& s, const Target& target, Decider& decider, BlockRef block, const Loops& outside,
                          bool takes_epilogue);

}  // namespace fettle
