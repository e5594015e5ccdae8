#pragma once
// Holds sums in vector registers while they are accumulated (scalar promotion), and makes lanes whole registers. Other
// compilers have passes for this behind the schedule; here both are steps of the trace. Ansor's and MetaSchedule's
// spaces share it on CPUs.

#include <string>

#include "schedule/schedule.h"

namespace fettle {

/// Lanes of a vector register, of what the block writes.
Result<int64_t> lanes_of(const Schedule& s, BlockRef block);

/// Makes the iterations of a loop lanes, at most one register of `lanes` at once:
///   for j in 40: S   →   for j_0 in 3 unrolled: for j_1 in 16 vectorized: S        (lanes beyond j < 40 are masked)
/// Errors: those of split, unroll and vectorize
Result<> vectorize_in_registers(Schedule& s, LoopRef loop, int64_t lanes);

/// Vectorizes what stands in the same nest as `block` without being it: consumers and copies that were moved there,
/// along what is contiguous in what they write. What cannot be vectorized stays as it is.
Result<> vectorize_companions(Schedule& s, BlockRef block);

/// Below the root, each reduction whose innermost tile of sums fits the target's vector registers accumulates there
/// (cache_inplace). It does so from the outermost loop of the reduction on for which the tile fits, and below which the
/// tile's loops are inside all loops of the reduction. The tile's loops are unrolled.
///   for k_0: for i in 4: for j in 32 vectorized: C[i, j] += …
///   →  C_register[i, j] = 0;  for k_0: for i in 4 unrolled: … C_register[i, j] += …;  C[i, j] = C_register[i, j]
/// Taps whose guards are known once they and the tile are unrolled are unrolled, too (guarded_taps.h). A consumer that
/// was moved to where the tile is done reads the registers, and what is in between is not written:
///   C[i, j] = C_register[i, j];  D[i, j] = max(C[i, j], 0)   →   D[i, j] = max(C_register[i, j], 0)
/// Reductions for which that is refused stay as they are.
Result<> accumulate_in_registers(Schedule& s, const Target& target);

}  // namespace fettle
