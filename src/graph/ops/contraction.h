#pragma once
// Contractions of two tensors that are products of matrices.

#include <vector>

#include "graph/passes/lowering.h"

namespace fettle::ops {

/// One operand: its dims by their kinds. Those that both operands have are in one order; the others ascend.
struct Contracted {
  Value* value;
  std::vector<int64_t> batch, contracting, others;

  Shape dims(const std::vector<int64_t>& axes) const;
};

/// Whether there are dims of each kind but the batch's, and they lie side by side: each kind becomes one dim, and
/// transposes are views.
bool is_product(const Contracted& a, const Contracted& b);
/// Σ over the contracting dims, by `op`, MatMul or MatMulInteger: [batch…, others of a…, others of b…], the result's
/// shape. is_product() holds.
Value* product_of_matrices(passes::Lowering& g, const Contracted& a, const Contracted& b, const char* op,
                           const Shape& result);

}  // namespace fettle::ops
