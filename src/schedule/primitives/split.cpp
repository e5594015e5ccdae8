#include "schedule/primitives/split.h"

#include <algorithm>

#include "analysis/touched_regions.h"
#include "arith/affine_map.h"
#include "base/ceil_div.h"
#include "base/checks.h"
#include "schedule/edit/edit_in_place.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// What a split needs to know of its loop, and what it works out.
struct Plan {
  std::vector<Var> vars;      // of the new loops, outermost first
  std::vector<Expr> extents;  // theirs
  Expr index;                 // iteration number in the old loop: from 0
  Expr predicate;             // null: every iteration is one of the old loop's
  Tail tail = Tail::kExact;
};

// The factors with their values; the one to be inferred, if any, is 0 and at `infer`.
Result<std::vector<int64_t>> factor_values(const Schedule& s, const SplitArgs& args, const ForNode& loop, int* infer,
                                           int64_t* product) {
  if (args.factors.empty()) return refused(ErrorCode::E202, s.func(), &loop, "no factors are given");
  std::vector<int64_t> factors;
  factors.reserve(args.factors.size());
  *infer = -1;
  *product = 1;
  for (const IntRef& ref : args.factors) {
    FETTLE_TRY(const int64_t factor, s.value(ref));
    if (factor == kInfer) {
      if (*infer >= 0) return refused(ErrorCode::E203, s.func(), &loop, "");
      *infer = static_cast<int>(factors.size());
      factors.push_back(0);
      continue;
    }
    if (factor < 1 || __builtin_mul_overflow(*product, factor, product))
      return refused(ErrorCode::E202, s.func(), &loop, "factor {}", std::to_string(factor));
    factors.push_back(factor);
  }
  return factors;
}

// sum over k in [first, n) of var_k * (product of the extents inside it)
Expr index_within(const Plan& plan, size_t first) {
  Expr sum = 0, stride = 1;
  for (size_t k = plan.vars.size(); k-- > first;) {
    sum = Expr(plan.vars[k]) * stride + sum;
    stride = stride * plan.extents[k];
  }
  return sum;
}

// Why a block beneath must not run an instance twice, or null.
const BlockNode* find_accumulating(const Stmt& s) {
  return find_node<BlockNode>(s, [](const BlockNode& block) {
    return reads_own_output(block) ||
           std::ranges::any_of(block.iters, [](const IterVar& iter) { return iter.kind != IterKind::kSpatial; });
  });
}

Result<> plan_balance(const Schedule& s, const ForNode& loop, int64_t extent, const std::vector<int64_t>& factors,
                      Plan& plan) {
  if (factors.size() != 2)
    return refused(ErrorCode::E231, s.func(), &loop, "balance takes two factors: tiles and their size");
  const int64_t tiles = std::max<int64_t>(factors[0], 1);
  const int64_t size = extent / tiles, longer = extent % tiles;
  const Expr outer = plan.vars[0], inner = plan.vars[1];
  plan.extents = {tiles, size + (longer > 0 ? 1 : 0)};
  plan.index = outer * size + (longer > 0 ? min(outer, longer) : Expr(0)) + inner;
  if (longer == 0) return {};
  plan.predicate = lt(inner, Expr(size) + select(lt(outer, longer), 1, 0));
  plan.tail = Tail::kBalance;
  return {};
}

// Of an extent that is told when the program runs.
Result<> plan_open_balance(const Schedule& s, const ForNode& loop, const std::vector<int64_t>& factors, int infer,
                           Analyzer& analyzer, Plan& plan) {
  if (factors.size() != 2 || infer != 0)
    return refused(ErrorCode::E231, s.func(), &loop,
                   "balance takes the size of tiles of an extent that is no constant");
  const int64_t tile = factors[1];
  const OpenBalance balanced = open_balance(plan.vars[0], plan.vars[1], loop.extent, tile);
  plan.extents = {analyzer.simplify(floordiv(loop.extent + Expr(tile - 1), tile)), tile};
  plan.index = balanced.index;
  plan.predicate = lt(plan.vars[1], balanced.length);
  plan.tail = Tail::kBalance;
  return {};
}

Result<> plan_shift(const Schedule& s, const ForNode& loop, int64_t extent, int64_t tile, Plan& plan) {
  if (tile > extent)
    return refused(ErrorCode::E231, s.func(), &loop, "a tile of {} is larger than the extent {}", std::to_string(tile),
                   std::to_string(extent));
  if (const BlockNode* block = find_accumulating(loop.body); block && checks("split.shift"))
    return refused(ErrorCode::E231, s.func(), block, "block {} accumulates and cannot run twice", block->name);
  plan.index = min(Expr(plan.vars[0]) * tile, Expr(extent - tile)) + index_within(plan, 1);
  plan.tail = Tail::kShift;
  return {};
}

Result<> plan_constant(const Schedule& s, const SplitArgs& args, const ForNode& loop, int64_t extent,
                       std::vector<int64_t> factors, int infer, int64_t product, Plan& plan) {
  if (infer >= 0) {
    factors[static_cast<size_t>(infer)] = std::max<int64_t>(ceil_div(extent, product), 1);
    if (__builtin_mul_overflow(product, factors[static_cast<size_t>(infer)], &product))
      return refused(ErrorCode::E202, s.func(), &loop, "the product of the factors does not fit into 64 bits");
  }
  if (product < extent)
    return refused(ErrorCode::E204, s.func(), &loop, "{} < {} of loop {}", std::to_string(product),
                   std::to_string(extent), loop.var->name);
  const int64_t tile = product / factors[0];
  if (product != extent) {
    if (args.tail == Tail::kExact)
      return refused(ErrorCode::E205, s.func(), &loop, "{} > {} of loop {}", std::to_string(product),
                     std::to_string(extent), loop.var->name);
    if (args.tail == Tail::kBalance) return plan_balance(s, loop, extent, factors, plan);
    factors[0] = ceil_div(extent, tile);
  }
  for (int64_t factor : factors) plan.extents.push_back(factor);
  if (factors[0] * tile != extent && args.tail == Tail::kShift) return plan_shift(s, loop, extent, tile, plan);
  plan.index = index_within(plan, 0);
  if (factors[0] * tile == extent) return {};
  plan.predicate = lt(plan.index, extent);
  plan.tail = args.tail;
  return {};
}

Result<> plan_symbolic(const Schedule& s, const SplitArgs& args, const ForNode& loop,
                       const std::vector<int64_t>& factors, int infer, int64_t product, Analyzer& analyzer,
                       Plan& plan) {
  const Expr& extent = loop.extent;
  if (args.tail == Tail::kShift)
    return refused(ErrorCode::E231, s.func(), &loop, "the extent of loop {} is not a constant", loop.var->name);
  for (int64_t factor : factors) plan.extents.push_back(factor);
  bool divides;
  if (infer >= 0) {
    plan.extents[static_cast<size_t>(infer)] = analyzer.simplify(floordiv(extent + Expr(product - 1), product));
    divides = analyzer.can_prove(eq(floormod(extent, product), 0));
  } else {
    if (!analyzer.can_prove(le(extent, product)))
      return refused(ErrorCode::E204, s.func(), &loop, "{} may be less than the extent of loop {}",
                     std::to_string(product), loop.var->name);
    divides = analyzer.can_prove_equal(extent, product);
  }
  if (!divides && args.tail == Tail::kExact)
    return refused(ErrorCode::E205, s.func(), &loop, "the extent of loop {} is not a constant", loop.var->name);
  if (!divides && args.tail == Tail::kBalance && product > 2)
    return plan_open_balance(s, loop, factors, infer, analyzer, plan);
  plan.index = index_within(plan, 0);
  if (divides) return {};
  plan.predicate = lt(plan.index, extent);
  plan.tail = args.tail;
  return {};
}

Result<Applied> apply_split(const Schedule& s, const SplitArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  const ForNode& loop = *stmt.as<ForNode>();
  FETTLE_TRY_VOID(check_plain(s.func(), loop));
  int infer;
  int64_t product;
  FETTLE_TRY(const std::vector<int64_t> factors, factor_values(s, args, loop, &infer, &product));

  Plan plan;
  for (size_t k = 0; k < factors.size(); ++k)
    plan.vars.push_back(make_var(loop.var->name + "_" + std::to_string(k), loop.var->dtype));
  Analyzer analyzer = analyzer_at(s.func(), &loop);
  if (const int64_t* extent = as_int(loop.extent))
    FETTLE_TRY_VOID(plan_constant(s, args, loop, *extent, factors, infer, product, plan));
  else
    FETTLE_TRY_VOID(plan_symbolic(s, args, loop, factors, infer, product, analyzer, plan));

  for (size_t k = 0; k < plan.vars.size(); ++k) analyzer.bind(plan.vars[k], 0, plan.extents[k]);
  Stmt body = substitute_loops(loop.body, {{loop.var.get(), loop.min + plan.index}}, analyzer);
  if (plan.predicate) body = add_predicate(body, plan.predicate);
  Applied applied;
  for (size_t k = plan.vars.size(); k-- > 0;) {
    auto nested = make_ref<ForNode>(plan.vars[k], Expr(0), plan.extents[k], std::move(body));
    if (k == 0) nested->tail = plan.tail == Tail::kExact ? loop.tail : plan.tail;
    body = nested;
  }
  applied.func = replace_last(s, &loop, body);
  applied.outputs.assign(plan.vars.begin(), plan.vars.end());
  return applied;
}

}  // namespace

constinit const PrimitiveDef split_def = define_primitive<SplitArgs, apply_split>("split", 1);

Result<std::vector<LoopRef>> split(Schedule& s, const SplitArgs& args) {
  return run<std::vector<LoopRef>>(s, split_def, args);
}

}  // namespace fettle
