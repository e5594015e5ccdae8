#pragma once
// Loops of an order on a device's blocks and threads, and what of the program lies in memory that they share or own.
//
//   for i: for j: for k: C[i, j] += A[i, k] * B[k, j]
//   →  for i_0 blockIdx.y: for j_0 blockIdx.x: for i_2 threadIdx.y: for j_2 threadIdx.x:
//        C_local[…] = C[…]
//        for k_0: [A_shared[…] = A[…], B_shared[…] = B[…], by all threads]
//          for k_1: for i_1: for j_1: C_local[i_1, j_1] += A_shared[…] * B_shared[…]
//        C[…] = C_local[…]

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"

namespace fettle {

/// Each nest's outermost run of independent loops goes to blocks and threads; loops around that run stay with the host,
/// which launches for each of their iterations. Loops whose bounds depend on others of the run get constant ones, and
/// conditions. Of several blocks in a run, inner independent loops may be the threads. Decides, after Tensor
/// Comprehensions' mapping options: threads and elements of each along two loops, steps of a tile in memory, whether
/// what several threads read is promoted to shared memory, and whether what a thread updates is to its own.
/// Errors: E230 the program does not keep the target's rules · those of decisions
Result<> map_to_device(Schedule& s, const Target& target, Decider& decider);

}  // namespace fettle
