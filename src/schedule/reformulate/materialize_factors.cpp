// Gives factors of a product buffers of their own, so that each element is worked out once: operands that are widened,
// or unpacked from few bits.
//   for i: for j: for k: C[i, j] += A[i, k] * f(W[k, j])
//     →  for k: for j:        C_factor[k, j] = f(W[k, j])
//        for i: for j: for k: C[i, j] += A[i, k] * C_factor[k, j]
// numbers: which factors, by their numbers: [0], [1] or [0, 1]. The first becomes C_factor, the second C_factor_1.
// A factor's buffer has the block's iterators that it uses, in their order, but the output's last dimension last.
// Pattern: a perfect nest whose loops are bound one to one to the block's iterators, without a predicate; an init of 0,
// and an update C[…] = C[…] + a * b. What becomes a buffer reads memory and does something with it. Extents may be
// open.
// Returns the factors (data, of the old block) and C. Class: exact.

#include <algorithm>

#include "ir/query.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/reformulate/part_blocks.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

// The iterators that `factor` uses: in the block's order, but `column` last.
std::vector<IterVar> iterators_of(const Expr& factor, const BlockNode& block, const ExprNode* column) {
  std::vector<IterVar> used;
  for (const IterVar& iter : block.iters)
    if (uses_var(factor, iter.var.get())) used.push_back(iter);
  std::ranges::stable_partition(used, [&](const IterVar& iter) { return iter.var.get() != column; });
  return used;
}

// C_factor, written by a block of its own. Returns its element for the old block's iterators.
Expr materialize(PartBlocks& parts, const std::string& suffix, const Expr& factor, const std::vector<IterVar>& used) {
  VarMap fresh;
  std::vector<IterVar> iters;
  std::vector<Expr> at, from;
  for (const IterVar& iter : used) {
    iters.push_back({make_var(iter.var->name, iter.var->dtype), iter.extent, IterKind::kSpatial, nullptr});
    fresh[iter.var.get()] = iters.back().var;
    at.push_back(iters.back().var);
    from.push_back(iter.var);
  }
  return load(parts.add(suffix, kDataRole, iters, at, substitute(factor, fresh)), from);
}

Result<Reformulated> apply_materialize_factors(const Func& func, const BlockNode& block,
                                               std::span<const int64_t> numbers) {
  const bool known = std::ranges::all_of(numbers, [](int64_t n) { return n == 0 || n == 1; });
  if (numbers.empty() || numbers.size() > 2 || !known || (numbers.size() == 2 && numbers[0] >= numbers[1]))
    return pattern_differs("it takes the numbers of factors: 0, 1, or both in this order");
  FETTLE_TRY(const PlainReduction plain, plain_reduction(func, block));
  FETTLE_TRY(const ReductionPattern m, match_reduction(func, block, /*several=*/true, /*open=*/true));
  const auto* product = m.term.as<BinaryNode>();
  if (m.combine->op != BinaryOp::kAdd || !product || product->op != BinaryOp::kMul)
    return pattern_differs("the block is no sum of products");
  const ExprNode* column = m.update->indices.empty() ? nullptr : m.update->indices.back().get();

  PartBlocks parts(func, block);
  Expr factors[] = {product->a, product->b};
  std::string suffix = "_factor";
  for (const int64_t n : numbers) {
    if (factors[n].as<LoadNode>() || !reads_memory(factors[n]))
      return pattern_differs("a factor is an element of a buffer, or reads no memory");
    const std::vector<IterVar> used = iterators_of(factors[n], block, column);
    if (used.empty()) return pattern_differs("a factor is one number");
    factors[n] = materialize(parts, suffix, factors[n], used);
    suffix = "_factor_1";
  }
  parts.finish(
      block.name, block.iters, "", block.init,
      store(m.update->buffer, m.update->indices, load(m.update->buffer, m.update->indices) + factors[0] * factors[1]),
      block.annotations);
  return Reformulated{parts.result(plain.nest), parts.names(), 0};
}

}  // namespace

extern constinit const ReformulationDef materialize_factors_def = {"materialize_factors", Numerics::kExact,
                                                                   apply_materialize_factors};

}  // namespace fettle
