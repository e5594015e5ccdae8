#pragma once
// Templates of programs that work row by row.

#include <string>
#include <vector>

#include "generations/autotvm/template/template.h"

namespace fettle {

/// Each row goes through all blocks before the next one begins, so that it is read from the first-level cache but for
/// the first time; sums and maxima along it in vector accumulators (split_reduction, pairwise_reduction). Knobs: those
/// of lanes_with_knobs, reciprocal_with_knobs and fuse_rows_with_knobs, and "parallel". Errors: E230 the blocks have no
/// rows in common.
Result<> rows_with_knobs(TemplateContext& t);

// --- what it consists of -----------------------------------------------------------------------------------------

/// The knobs "vectors_BLOCK" of accumulators, none where rows are short: reductions along rows, but for products of
/// matrices, are split into lanes.
Result<> lanes_with_knobs(TemplateContext& t);
/// The knob "reciprocal": what the block divides by, where elements share it.
Result<> reciprocal_with_knobs(TemplateContext& t, const std::string& block);

/// The blocks, which follow one another, in one loop over their rows. Knobs: "unroll_BLOCK", vectors of a long row at a
/// time; where `several`: "rows", two of them at a time, "interleaved", which take turns, "runs", which are dealt out,
/// and "whole" rows unrolled. Two rows share what is the same for each, and one fills the time in which the other's
/// sums are combined:
///   for i: { for k: M[i] += X[i, k];  for k: Y[i, k] = X[i, k] - M[i] * G[k] }
///   →  for runs (parallel): for i_0:
///        { for i_1 in 2 unrolled: for k: M[…] += X[…];  for k: for i_1 in 2 unrolled: Y[…] = X[…] - M[…] * G[k] }
/// Returns the loops over rows that iterate, outermost first; the first of them is that over runs.
/// Errors: E230 they have no rows in common
Result<std::vector<LoopRef>> fuse_rows_with_knobs(TemplateContext& t, const std::vector<std::string>& blocks,
                                                  bool several = true);

/// Whether the program's blocks all work on rows that do not lie side by side in memory.
bool works_on_rows(const Func& func);
/// How many of its reductions are maxima, and how many are sums.
struct RowReductions {
  int maxima = 0, sums = 0;
};
RowReductions row_reductions(const Func& func);

}  // namespace fettle
