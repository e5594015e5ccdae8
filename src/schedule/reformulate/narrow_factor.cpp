// Rounds the factor of a product that is wider than the other one, so that units that multiply narrow factors can take
// the product: the shares of attention, say.
//   for i: for j: for k: O[i, j] += p(i, k) * f32(V[k, j])          V of f16 or bf16
//     →  for i: for k:   O_factor[i, k] = f16(p(i, k))
//        for i: for j: for k: O[i, j] += f32(O_factor[i, k]) * f32(V[k, j])
// numbers: none.
// Pattern: a perfect nest whose loops are bound one to one to the block's iterators, without a predicate; an init of 0,
// and an update O[…] = O[…] + a * b, a of f32 and b a widened element of f16 or bf16, in either order.
// Returns O_factor and O. Class: approximate; a factor is rounded to 11 or 8 bits: 4096 units of f32, or 32768. Factors
// are taken to be in the narrow type's range.

#include "ir/query.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/reformulate/part_blocks.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

// f32(V[…])
bool is_widened(const Expr& e) {
  const auto* cast = e.as<CastNode>();
  return cast && cast->dtype == kF32 && cast->a.as<LoadNode>() && (cast->a.dtype() == kF16 || cast->a.dtype() == kBF16);
}

Result<Reformulated> apply_narrow_factor(const Func& func, const BlockNode& block, std::span<const int64_t> numbers) {
  if (!numbers.empty()) return pattern_differs("it takes no number");
  FETTLE_TRY(const PlainReduction plain, plain_reduction(func, block));
  FETTLE_TRY(const ReductionPattern m, match_reduction(func, block, /*several=*/true, /*open=*/true));
  const auto* product = m.term.as<BinaryNode>();
  if (m.combine->op != BinaryOp::kAdd || !product || product->op != BinaryOp::kMul)
    return pattern_differs("the block is no sum of products");
  const bool swapped = is_widened(product->a);
  const Expr &narrow = swapped ? product->a : product->b, &wide = swapped ? product->b : product->a;
  if (!is_widened(narrow) || is_widened(wide) || !(wide.dtype() == kF32))
    return pattern_differs("not one factor is of f32 and the other one of f16 or bf16");
  const DType type = narrow.as<CastNode>()->a.dtype();

  PartBlocks parts(func, block);
  VarMap fresh;
  std::vector<IterVar> iters;
  std::vector<Expr> at, from;
  for (const IterVar& iter : block.iters) {
    if (!uses_var(wide, iter.var.get())) continue;
    IterVar own = iter;
    own.var = make_var(iter.var->name, iter.var->dtype);
    own.kind = IterKind::kSpatial;
    fresh[iter.var.get()] = own.var;
    at.push_back(own.var);
    from.push_back(iter.var);
    iters.push_back(std::move(own));
  }
  const Buffer factor = parts.add("_factor", "", iters, at, cast(type, substitute(wide, fresh)));
  const Expr rounded = cast(kF32, load(factor, from));
  const Expr term = swapped ? narrow * rounded : rounded * narrow;
  parts.finish(block.name, block.iters, "", block.init,
               store(m.update->buffer, m.update->indices, load(m.update->buffer, m.update->indices) + term),
               block.annotations);
  return Reformulated{parts.result(plain.nest), parts.names(), type == kF16 ? 4096.0 : 32768.0};
}

}  // namespace

extern constinit const ReformulationDef narrow_factor_def = {"narrow_factor", Numerics::kApproximate,
                                                             apply_narrow_factor};

}  // namespace fettle
