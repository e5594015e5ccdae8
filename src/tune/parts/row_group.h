#pragma once
// Blocks in a row that all work row by row: softmax, norms, means, and what is done element by element with them.

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "tune/parts/structure.h"

namespace fettle {

/// Blocks of a program that need nothing of one another across rows.
///   M[i] = max_k X[i, k];  E[i, k] = exp(X[i, k] - M[i]);  S[i] = sum_k E[i, k];  Y[i, k] = E[i, k] / S[i]
/// Rows: i. Each row can go through all blocks before the next one begins.
struct RowGroup {
  std::vector<std::string> blocks;           // in program order; the last one writes the output
  std::vector<size_t> rows;                  // which loops of the last block are rows, outermost first; perhaps none
  std::vector<std::vector<size_t>> rows_of;  // for each block: its loops that are `rows`, in the same order
  bool rows_are_contiguous = false;          // the last of them is the dimension that is contiguous in memory
};

/// These blocks, which follow one another, if only the last one writes what others read or a parameter, and two of them
/// reduce, or one does so in lanes.
std::optional<RowGroup> row_group(const Func& func, const std::vector<const BlockNode*>& blocks,
                                  Extents extents = Extents::kConstant);
/// All of the program's blocks.
std::optional<RowGroup> row_group(const Func& func);

}  // namespace fettle
