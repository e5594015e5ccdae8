#pragma once
// Loops of what is no tile: elementwise work, copies, transposes, reductions without a vector iterator.
//
//   for i: for j: B[i, j] = f(A[i, j])   →   parallel i: for j0: for j1 (vectorized): B[i, j] = f(A[i, j])
//
// Where a step is refused it is left out: a plain serial nest is the last resort.

#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"

namespace fettle {

struct NestOptions {
  int threads = 1;
};
/// Vectorizes the block's loops and deals them out to threads. What transposes goes through tiles, what bends is cut
/// where it does (straight_runs.h). Decides under the address prefix that is set. Errors: those of the steps that come
/// first
Result<Finished> loop_nest(Schedule& s, const Target& target, Decider& decider, BlockRef block,
                           const NestOptions& options = {});

}  // namespace fettle
