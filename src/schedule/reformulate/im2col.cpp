// A convolution as a matrix product: the windows of an input become rows of a matrix.
//   for h, w, o: for r, q, c: C[h, w, o] += A[h*2 + r, w*2 + q, c] * F[r, q, c, o]
//     →  for h, w, r, q, c:   A_col[h*W + w, (r*Q + q)*K + c] = A[h*2 + r, w*2 + q, c]
//        for m, o: for k:     C[m // W, m % W, o] += A_col[m, k] * F[k // (Q*K), k // K % Q, k % K, o]
// numbers: [the number of the block's read that is A]
// Pattern: a reduction in a plain nest; A is read at one place, inside its bounds without a condition, and one of its
// indices depends on both the output and the reduction.
// Returns A_col and C. Class: exact (the terms keep their order). Costs a buffer of the window's size times A, about.

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/reindexing.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/transform_block_layout.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

bool uses_kind(const Expr& e, const BlockNode& block, IterKind kind) {
  return std::ranges::any_of(block.iters,
                             [&](const IterVar& iter) { return iter.kind == kind && uses_var(e, iter.var.get()); });
}

// (i0, …) → sum of those at `members`, in mixed radix, the last one innermost.
Expr fused(const std::vector<Var>& inputs, const std::vector<Expr>& extents, const std::vector<size_t>& members) {
  Expr sum = 0;
  for (const size_t i : members) sum = sum * extents[i] + inputs[i];
  return simplify(sum);
}

Result<Reformulated> apply_im2col(const Func& func, const BlockNode& block, std::span<const int64_t> numbers) {
  if (numbers.size() != 1) return pattern_differs("it takes the number of the read");
  const BlockNode* scope = enclosing_block(func, &block);
  if (!scope || !is_reduction(block, *scope)) return pattern_differs("the block is no reduction");
  auto buffer = read_buffer(block, numbers[0]);
  if (!buffer) return pattern_differs("there is no such read");
  const auto reads = loads_of(block.body, buffer->get());
  const bool window = !reads.empty() && std::ranges::any_of(reads.front(), [&](const Expr& index) {
    return uses_kind(index, block, IterKind::kSpatial) && uses_kind(index, block, IterKind::kReduce);
  });
  if (!window) return pattern_differs("no index of the input depends on both the output and the reduction");

  // Which iterators the input depends on: rows come of spatial ones, columns of those of the reduction.
  std::vector<Var> of_block, of_input;
  std::vector<Expr> block_extents, input_extents;
  std::vector<size_t> rows, columns, input_rows, input_columns, other;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const IterVar& iter = block.iters[i];
    const bool used = std::ranges::any_of(reads.front(), [&](const Expr& e) { return uses_var(e, iter.var.get()); });
    const bool spatial = iter.kind == IterKind::kSpatial;
    of_block.push_back(make_var(iter.var->name));
    block_extents.push_back(iter.extent);
    (!used ? other : spatial ? rows : columns).push_back(i);
    if (!used && !spatial) return pattern_differs("the input does not depend on all of the reduction");
    if (!used) continue;
    (spatial ? input_rows : input_columns).push_back(of_input.size());
    of_input.push_back(make_var(iter.var->name));
    input_extents.push_back(iter.extent);
  }

  Schedule work(func);
  auto copied = reindexed(work, block, {*buffer, false, nullptr, kScopeGlobal, "col"});
  if (!copied) return pattern_differs(copied.error().message);
  Schedule s(copied->func);
  FETTLE_TRY(const BlockRef product, get_block(s, {block.name}));
  const std::string copy_name = std::get<std::string>(copied->outputs.front());
  const IndexMap to_matrix{of_input,
                           {fused(of_input, input_extents, input_rows), fused(of_input, input_extents, input_columns)}};
  IndexMap to_product{of_block, {fused(of_block, block_extents, rows)}};
  for (const size_t i : other) to_product.outputs.push_back(of_block[i]);
  to_product.outputs.push_back(fused(of_block, block_extents, columns));
  const auto changed = [&]() -> Result<> {
    FETTLE_TRY_VOID(transform_layout(s, {product, numbers[0], "read", to_matrix, false}));
    return transform_block_layout(s, {product, to_product});
  }();
  if (!changed) return pattern_differs(changed.error().message);
  return Reformulated{s.func(), {copy_name, block.name}, 0};
}

}  // namespace

extern constinit const ReformulationDef im2col_def = {"im2col", Numerics::kExact, apply_im2col};

}  // namespace fettle
