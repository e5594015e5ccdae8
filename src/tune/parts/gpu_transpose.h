#pragma once
// What reads along another dimension than it writes: tiles go through shared memory, so that threads walk along memory
// both times.
//
//   for i: for j: B[i, j] = A[j, i]
//   →  for by: for bx: [for y: for x: A_shared[32 x 32] = A[…]]  for y: for x: B[…] = A_shared[x, y]

#include <optional>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"
#include "tune/parts/structure.h"

namespace fettle {

/// The loop along which neighbours are written, that along which they are read, and the load that does so.
struct Transposing {
  size_t written = 0, read = 0, load = 0;
};
/// Nothing where no load, or more than one, is of this kind, or a loop is short.
std::optional<Transposing> transposing(const BlockStructure& block);

/// Decides under the address prefix that is set. Errors: E230 the block does not transpose · those of the steps
Result<Finished> gpu_transpose(Schedule& s, const Target& target, Decider& decider, BlockRef block);

}  // namespace fettle
