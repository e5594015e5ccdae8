#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Puts what a block computes where it is read, and removes the block and its buffer.
///   block B: B[vi, vj] = exp(A[vi, vj])      block C: C[vi, vj] = B[vj, vi] + 1
///   →
///   block C: C[vi, vj] = exp(A[vj, vi]) + 1
/// The block may be elementwise, a broadcast, a padding, a transpose, a reshape: a single store, whose indices
/// determine its iterators. A value read several times is computed several times. Errors: E206 no such block · E213 the
/// block writes an output of the program · E214 it is no such block, or nothing reads it
///         E227 something it reads is overwritten before a reader runs
struct ComputeInlineArgs {
  BlockRef block;
  static constexpr auto fields = std::tuple{field("block", &ComputeInlineArgs::block)};
};
Result<> compute_inline(Schedule& s, const ComputeInlineArgs& args);

}  // namespace fettle
