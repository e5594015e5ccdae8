// Takes factors out of the inner part of a sum: those that do not depend on its innermost reduce iterators.
//   for i: for b: for k in K: C[i] += f(i, b, k) * (g(i, b, k) - z(i, b)) * s(i, b)
//     →  for i: for b: for k in K: C_inner[i, b] += f(i, b, k) * g(i, b, k)
//        for i: for b: for k in K: C_inner_1[i, b] += f(i, b, k)
//        for i: for b:             C[i] += C_inner[i, b] * s(i, b) - C_inner_1[i, b] * (z(i, b) * s(i, b))
// That is how products with quantised weights are best done, whose scale s and zero point z are one a block of steps.
// numbers: [n]: so many reduce iterators, the first, stay outside; at least 1, and at least one is left inside.
// Sums and differences within a term are multiplied out. An inner sum has the iterators alone that its terms use.
// Products whose inner factors are equal share one.
// Pattern: a perfect nest whose loops are bound one to one to the block's iterators, without a predicate; an init of 0,
// and an update C[…] = C[…] + f of floats, f a sum of products of which one has a factor that reads memory and depends
// on iterators outside alone. Each product has a factor inside. Extents may be open.
// Returns the inner sums, the one of the most iterators first (the product, the others are data), and C (outputs).
// Class: reassociating. Costs a buffer of the inner sums, which is best made where it is read.

#include <algorithm>

#include "ir/compare.h"
#include "ir/query.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/reformulate/part_blocks.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

constexpr size_t kMostProducts = 8;

/// outside * inside, of which either may be missing: 1.
struct Product {
  Expr outside, inside;
  bool negative = false;
};
Expr times(const Expr& a, const Expr& b) { return !a ? b : !b ? a : a * b; }

class Factors {
 public:
  explicit Factors(std::vector<Var> inner) : inner_(std::move(inner)) {}

  bool is_inside(const Expr& e) const {
    return std::ranges::any_of(inner_, [&](const Var& var) { return uses_var(e, var.get()); });
  }
  /// `e` as a sum of products; where it would have too many, as one.
  std::vector<Product> of(const Expr& e) const {
    if (!is_inside(e)) return {{e, nullptr}};
    const auto* node = e.as<BinaryNode>();
    if (!node) return {{nullptr, e}};
    std::vector<Product> a, b, made;
    switch (node->op) {
      case BinaryOp::kMul:
        a = of(node->a), b = of(node->b);
        for (const Product& x : a)
          for (const Product& y : b)
            made.push_back({times(x.outside, y.outside), times(x.inside, y.inside), x.negative != y.negative});
        break;
      case BinaryOp::kAdd:
      case BinaryOp::kSub:
        made = of(node->a);
        for (Product y : of(node->b)) {
          y.negative = y.negative != (node->op == BinaryOp::kSub);
          made.push_back(std::move(y));
        }
        break;
      default:
        return {{nullptr, e}};
    }
    return made.size() > kMostProducts ? std::vector<Product>{{nullptr, e}} : made;
  }

 private:
  std::vector<Var> inner_;
};

/// Products that share `inside`: ± outside.
struct Inner {
  Expr inside, outside;
  bool negative = false;
  size_t n_iters = 0;
};

Result<Reformulated> apply_factor_sum(const Func& func, const BlockNode& block, std::span<const int64_t> numbers) {
  if (numbers.size() != 1 || numbers[0] < 1)
    return pattern_differs("it takes a number of reduce iterators, at least 1");
  FETTLE_TRY(const PlainReduction plain, plain_reduction(func, block));
  FETTLE_TRY(const ReductionPattern m, match_reduction(func, block, /*several=*/true, /*open=*/true));
  if (m.combine->op != BinaryOp::kAdd || !m.term.dtype().is_float())
    return pattern_differs("the block is no sum of floats");

  std::vector<IterVar> around, inner;  // of the inner sums
  std::vector<Var> inner_vars;
  int64_t outside = numbers[0];
  for (const IterVar& iter : block.iters) {
    const bool stays = iter.kind != IterKind::kReduce || outside-- > 0;
    (stays ? around : inner).push_back(iter);
    if (!stays) inner_vars.push_back(iter.var);
  }
  if (inner.empty()) return pattern_differs("no reduce iterator is left inside");

  std::vector<Inner> sums;
  bool factors_out = false;
  for (const Product& product : Factors(inner_vars).of(m.term)) {
    if (!product.inside) return pattern_differs("a product has no factor inside");
    factors_out |= product.outside && reads_memory(product.outside);
    const Expr factor = product.outside ? product.outside : constant(1, m.term.dtype());
    const auto known =
        std::ranges::find_if(sums, [&](const Inner& s) { return structural_equal(s.inside, product.inside); });
    if (known != sums.end()) {
      known->outside = known->negative == product.negative ? known->outside + factor : known->outside - factor;
      continue;
    }
    const auto used =
        std::ranges::count_if(around, [&](const IterVar& i) { return uses_var(product.inside, i.var.get()); });
    sums.push_back({product.inside, factor, product.negative, static_cast<size_t>(used)});
  }
  if (!factors_out) return pattern_differs("no factor that reads memory is the same for all inner steps");
  std::ranges::stable_sort(sums, [](const Inner& a, const Inner& b) { return a.n_iters > b.n_iters; });

  PartBlocks parts(func, block);
  Expr term;
  for (size_t i = 0; i < sums.size(); ++i) {
    VarMap fresh;
    std::vector<IterVar> iters;
    std::vector<Expr> at, from;
    const auto add = [&](const IterVar& iter, IterKind kind) {
      iters.push_back({make_var(iter.var->name, iter.var->dtype), iter.extent, kind, nullptr});
      fresh[iter.var.get()] = iters.back().var;
    };
    for (const IterVar& iter : around) {
      if (!uses_var(sums[i].inside, iter.var.get())) continue;
      add(iter, IterKind::kSpatial);
      at.push_back(iters.back().var);
      from.push_back(iter.var);
    }
    if (at.empty()) return pattern_differs("an inner sum is one number");
    for (const IterVar& iter : inner) add(iter, IterKind::kReduce);
    const Buffer sum = parts.add(i == 0 ? "_inner" : "_inner_" + std::to_string(i), i == 0 ? kProductRole : kDataRole,
                                 iters, at, substitute(sums[i].inside, fresh), Reduces{});
    const Expr scaled = load(sum, from) * sums[i].outside;
    if (!term)
      term = sums[i].negative ? constant(0, m.term.dtype()) - scaled : scaled;
    else
      term = sums[i].negative ? term - scaled : term + scaled;
  }
  parts.finish(block.name, around, kOutputsRole, block.init,
               store(m.update->buffer, m.update->indices, load(m.update->buffer, m.update->indices) + term),
               block.annotations);
  return Reformulated{parts.result(plain.nest), parts.names(), 0};
}

}  // namespace

extern constinit const ReformulationDef factor_sum_def = {"factor_sum", Numerics::kReassociating, apply_factor_sum};

}  // namespace fettle
