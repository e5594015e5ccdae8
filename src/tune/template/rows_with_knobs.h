#pragma once
// Templates of programs that work row by row.

#include <string>
#include <vector>

#include "tune/template/template.h"

namespace fettle {

/// Each row goes through all blocks before the next one begins, so that it is read from the first-level cache but for
/// the first time; sums and maxima along it in vector accumulators (split_reduction, pairwise_reduction). Knobs:
/// "vectors" of accumulators, none where rows are short; "reciprocal": one division a row (shared_reciprocal);
/// "unroll": vectors of the output at a time; "parallel". Errors: E230 the blocks have no rows in common.
Result<> rows_with_knobs(TemplateContext& t);

// --- what it consists of -----------------------------------------------------------------------------------------

/// The knob "vectors": reductions along rows, but for products of matrices, are split into lanes.
Result<> lanes_with_knobs(TemplateContext& t);
/// The knob "reciprocal": what the block divides by, where elements share it.
Result<> reciprocal_with_knobs(TemplateContext& t, const std::string& block);
/// The blocks (the last of which has the rows as its loops number `rows`) in one loop over rows, and the knob "unroll".
/// Returns the outermost loop over rows.
Result<LoopRef> fuse_rows_with_knobs(TemplateContext& t, const std::vector<std::string>& blocks,
                                     const std::vector<size_t>& rows);

/// Whether the program's blocks all work on rows that do not lie side by side in memory.
bool works_on_rows(const Func& func);
/// How many of its reductions are maxima, and how many are sums.
struct RowReductions {
  int maxima = 0, sums = 0;
};
RowReductions row_reductions(const Func& func);

}  // namespace fettle
