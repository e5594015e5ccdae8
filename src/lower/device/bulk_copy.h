#pragma once
// Copies of rectangles that the copy engine does, as loops.

#include <vector>

#include "arith/analyzer.h"
#include "base/result.h"
#include "ir/func.h"
#include "lower/device/device.h"
#include "target/target.h"

namespace fettle {

/// Loads: near[i, j] = far[…, b + i, …, c + j] over rows x columns, all of `near`; where a select guards it by the
/// bounds of `far`, zero outside. Stores: the same the other way, from near[a + i, j] of one panel's columns; an `if`
/// may guard them by these bounds.
struct BulkCopy {
  bool stores = false;
  Buffer near;                    // in shared memory
  std::vector<Expr> from;         // of a store: the first element's indices there
  TensorMap map;                  // of `far`
  std::vector<Expr> coordinates;  // of the first element in it, innermost first
  int64_t rows = 0, columns = 0;
  int64_t blocks = 1;  // of the cluster, which all need the same: each loads rows / blocks rows to all

  int64_t bytes() const { return rows * columns * near->dtype.element_bytes(); }
};

bool has_bulk_copies(const Target& target);

/// `nest`: the copy's loops; `params`: the kernel's. `block` and `cluster`: the number of the block (null: there is
/// one), and how many neighbours make a cluster. `known`: of the variables around. E301 where the copy engine cannot do
/// it, saying why
Result<BulkCopy> bulk_copy_of(const ForNode& nest, const std::vector<Param>& params, const Var& block, int64_t cluster,
                              const Analyzer& known = {});

}  // namespace fettle
