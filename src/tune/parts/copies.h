#pragma once
// Schedules copies of tiles and of whole buffers, in vectors.

#include "schedule/schedule.h"

namespace fettle {

/// Vectorizes and unrolls the loops of a copy of a tile: loops[first] and those inside it. The loop with unit stride in
/// what the block writes (else reads) becomes the innermost, in vectors of `lanes`; the others are unrolled, but for
/// those of open extent.
///   for i in 4: for j in 32: C[i, j] = T[i, j]
///   →   for j_0 in 2 (unrolled): for i in 4 (unrolled): for j_1 in 16 (lanes): …
///   without unroll_rows: for i in 4: for j_0 in 2: for j_1 in 16 (lanes): …
Result<> vectorize_copy(Schedule& s, BlockRef block, size_t first, int64_t lanes, bool unroll_rows = true);

/// Fills panels that are no constants, by all threads: in tiles that are transposed in registers where the copy
/// transposes, else
///   for n_0: for k: for n_1 in width: copy
///   →   for n_0 (parallel): for k: for n_1_0: for n_1_1 (lanes): copy
Result<> fill_in_vectors(Schedule& s, BlockRef panels, int64_t lanes);

}  // namespace fettle
