#pragma once
// Templates of programs that work row by row.

#include "tune/template/template.h"

namespace fettle {

/// Each row goes through all blocks before the next one begins, so that it is read from the first-level cache but for
/// the first time; sums and maxima along it in vector accumulators (split_reduction, pairwise_reduction). Knobs:
/// "vectors" of accumulators, none where rows are short; "reciprocal": one division a row (shared_reciprocal);
/// "unroll": vectors of the output at a time; "parallel". Errors: E230 the blocks have no rows in common.
Result<> rows_with_knobs(TemplateContext& t);

/// Whether the program's blocks all work on rows that do not lie side by side in memory.
bool works_on_rows(const Func& func);
/// How many of its reductions are maxima, and how many are sums.
struct RowReductions {
  int maxima = 0, sums = 0;
};
RowReductions row_reductions(const Func& func);

}  // namespace fettle
