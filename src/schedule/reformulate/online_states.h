#pragma once
// Computes softmax, and the sum that it weighs, block by block of the reduction: the second form of
// schedule/reformulate/online_reduction.h.

#include <string>
#include <vector>

#include "ir/func.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {

/// The only block of `scope` that writes what `e` loads, or null; null also where that is a parameter.
const BlockNode* only_writer(const Func& func, const BlockNode& scope, const LoadNode& e);

/// exp(x - M[…]), written out or stored by a block of its own, and the maximum M of x over one iterator.
struct Exponential {
  const BlockNode* stored = nullptr;  // null: written out
  const BlockNode* maximum = nullptr;
  ReductionPattern m;    // of the maximum
  Expr x;                // in the iterators of the block that reads the exponential
  std::vector<Expr> at;  // the indices of M there
};
/// E228 where `term`, in the body of `reader`, is something else.
Result<Exponential> match_exponential(const Func& func, const BlockNode& scope, const BlockNode& reader, Expr term);

/// The reader's iterators in terms of the maximum's: the indices of M determine those of rows, `reduce` is its reduce
/// iterator. Others have no entry. E228 where kinds or extents differ, or where x differs from what the maximum is of.
Result<VarMap> iters_in_maximum(const Func& func, const Exponential& e, const BlockNode& reader, size_t reduce);

/// The states of rank one more, for online_reduction with the size of a block. of_two: powers of two instead of e.
Result<Reformulated> apply_online_states(const Func& func, const BlockNode& block, int64_t block_size, bool of_two);

}  // namespace fettle
