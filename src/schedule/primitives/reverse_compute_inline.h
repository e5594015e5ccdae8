#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Puts what an elementwise block does to its producer's result into the producer, and removes the block and the buffer
/// between them.
///   block P: B[vi, vj] = A[vi, vj] * 2      block C: C[vj, vi] = max(B[vi, vj] + bias[vj], 0)
///   →
///   block P: C[vj, vi] = max(A[vi, vj] * 2 + bias[vj], 0)
/// The producer is the last block before it that writes what the block reads; it keeps its name and loops. A reduction
/// has no final value to apply this to: cache_write it first, and inline into the copy. Where the producer stores a
/// tile in each step of a carried loop (cache_inplace), the block's work is done in the last step, and its output takes
/// over as the accumulator:
///   block C_store: C[…] = C_register[…]      →      D[…] = select(step == last, f(C_register[…]), C_register[…])
/// Errors: E206 no such block · E211 no producer writes the buffer alone, or the producer's reduction is open
///         E213 the buffer between is an output of the program · E214 the block is not elementwise on all of the
///         producer's output, others read that, or the types differ under a carried loop · E227 something else that the
///         block reads is not ready where the producer runs
struct ReverseComputeInlineArgs {
  BlockRef block;
  static constexpr auto fields = std::tuple{field("block", &ReverseComputeInlineArgs::block)};
};
Result<> reverse_compute_inline(Schedule& s, const ReverseComputeInlineArgs& args);

}  // namespace fettle
