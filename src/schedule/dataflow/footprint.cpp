#include "schedule/dataflow/footprint.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/small_vector.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {

Footprint::Footprint(const Func& func, std::vector<const ForNode*> outer, std::vector<const ForNode*> inner)
    : outer_(std::move(outer)), inner_(std::move(inner)) {
  analyzer_.bind_params(func);
  bind_loops(analyzer_, outer_);
  bind_loops(analyzer_, inner_);
}

std::optional<Range> Footprint::of(const Expr& e) { return of_form(analyzer_.linear(e)); }

std::optional<Range> Footprint::of(const Range& range) {
  auto at_min = of(range.min);
  if (!at_min) return {};
  Expr extra = range.extent;
  if (uses_any(extra, outer_) || uses_any(extra, inner_)) {
    const Interval bounds = analyzer_.int_bounds(extra);
    if (bounds.max == Interval::kPosInf) return {};
    extra = int_imm(bounds.max);
  }
  at_min->extent = is_one(extra) ? at_min->extent : analyzer_.simplify(at_min->extent + extra - 1);
  return at_min;
}

std::optional<Range> Footprint::of_form(const LinearForm& form) {
  LinearForm min(form.constant);
  Expr extent;        // of what is no constant
  int64_t steps = 0;  // of constant loops
  for (const LinearTerm& term : form.terms) {
    if (term.expr.kind() == ExprKind::kVar) {
      const ForNode* loop = loop_of(inner_, term.expr.get());
      const int64_t* first = loop ? as_int(loop->min) : nullptr;
      const int64_t* count = first ? as_int(loop->extent) : nullptr;
      if (!loop) {
        min.add_term(term.expr, term.coeff);
        continue;
      }
      int64_t more;
      if (count && !__builtin_mul_overflow(*count - 1, std::abs(term.coeff), &more) &&
          !__builtin_add_overflow(steps, more, &more)) {
        steps = more;
        min.add_constant(term.coeff > 0 ? *first : *first + *count - 1, term.coeff);
        continue;
      }
    }
    if (!is_inner(term.expr)) {
      min.add_term(term.expr, term.coeff);
      continue;
    }
    const auto range = of_term(term.expr);
    if (!range) return {};
    const Expr first = term.coeff > 0 ? range->min : range->min + range->extent - 1;
    min.add(analyzer_.linear(first), term.coeff);
    const Expr further = (range->extent - 1) * std::abs(term.coeff);
    extent = extent ? extent + further : further;
  }
  const Expr count = int_imm(steps + 1);
  return Range{analyzer_.to_expr(std::move(min)), extent ? analyzer_.simplify(extent + count) : count};
}

std::optional<Range> Footprint::of_term(const Expr& term) {
  if (const auto* var = term.as<VarNode>()) {
    const ForNode* loop = loop_of(inner_, var);
    FETTLE_CHECK(loop);
    return of(Range{loop->min, loop->extent});
  }
  const Interval bounds = analyzer_.int_bounds(term);
  const auto by_bounds = [&]() -> std::optional<Range> {
    if (!bounds.is_bounded()) return {};
    return Range{int_imm(bounds.min), int_imm(bounds.max - bounds.min + 1)};
  };
  const auto* op = term.as<BinaryNode>();
  if (!op) {
    const auto* choice = term.as<SelectNode>();
    if (!choice || is_inner(choice->condition)) return by_bounds();
    const auto a = of(choice->if_true), b = of(choice->if_false);
    if (!a || !b) return by_bounds();
    return Range{analyzer_.simplify(select(choice->condition, a->min, b->min)),
                 analyzer_.simplify(max(a->extent, b->extent))};
  }
  switch (op->op) {
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod: {
      const int64_t* divisor = as_int(op->b);
      const auto a = divisor && *divisor > 0 ? of(op->a) : std::nullopt;
      if (!a) return by_bounds();
      // The least value is congruent to m.base modulo m.coeff: its largest remainder bounds how many steps are crossed.
      const Modular m = analyzer_.modular(a->min);
      const int64_t step = std::gcd(m.coeff, *divisor);
      const int64_t last = m.coeff == 0 ? floormod_int(m.base, *divisor) : *divisor - step + floormod_int(m.base, step);
      const int64_t* extent = as_int(a->extent);
      if (op->op == BinaryOp::kFloorMod) {
        if (extent && last + *extent <= *divisor) return Range{analyzer_.simplify(floormod(a->min, op->b)), a->extent};
        return Range{int_imm(0), op->b};
      }
      return Range{analyzer_.simplify(floordiv(a->min, op->b)),
                   analyzer_.simplify(floordiv(a->extent + (last - 1), op->b) + 1)};
    }
    case BinaryOp::kMin:
    case BinaryOp::kMax: {
      const auto a = of(op->a), b = of(op->b);
      if (!a || !b) return by_bounds();
      return Range{analyzer_.simplify(binary(op->op, a->min, b->min)), analyzer_.simplify(max(a->extent, b->extent))};
    }
    default:
      return by_bounds();
  }
}

std::optional<Footprint::Split> Footprint::split(const Expr& e) {
  Split result;
  struct Digit {
    int64_t coeff, extent;
  };
  std::vector<Digit> digits;
  const LinearForm form = analyzer_.linear(e);
  result.outer.add_constant(form.constant);
  for (const LinearTerm& term : form.terms) {
    if (!is_inner(term.expr)) {
      result.outer.add_term(term.expr, term.coeff);
      continue;
    }
    const ForNode* loop = loop_of(inner_, term.expr.get());
    if (!loop) return {};
    const int64_t* min = as_int(loop->min);
    const int64_t* extent = as_int(loop->extent);
    if (!min || !extent || term.coeff <= 0) return {};
    result.inner.add_term(term.expr, term.coeff);
    result.inner_min += *min * term.coeff;
    if (*extent > 1) digits.push_back({term.coeff, *extent});
  }
  std::ranges::sort(digits, {}, &Digit::coeff);
  for (const Digit& digit : digits) {
    if (digit.coeff != result.extent) return {};
    result.extent *= digit.extent;
  }
  return result;
}

Expr bounds_predicate(Analyzer& analyzer, const Expr& binding, const Expr& extent) {
  const int64_t* count = as_int(extent);
  if (const Interval bounds = analyzer.int_bounds(binding); bounds.min >= 0 && count && bounds.max < *count) return {};
  Expr result;
  const Expr low = ge(binding, int_imm(0)), high = lt(binding, extent);
  if (!analyzer.can_prove(low)) result = analyzer.simplify(low);
  if (!analyzer.can_prove(high)) result = logical_and(result, analyzer.simplify(high));
  return result;
}

Stmt wrap_loops(const std::vector<std::pair<Var, Range>>& loops, Stmt body) {
  for (size_t i = loops.size(); i-- > 0;)
    body = make_for(loops[i].first, loops[i].second.min, loops[i].second.extent, std::move(body));
  return body;
}

namespace {

// Of each of some loops: whether bindings use it.
using LoopsUsed = SmallVector<bool, 24>;

// By the bindings of the spatial iterators, or of all others.
LoopsUsed loops_used(const BlockNode& block, const std::vector<const ForNode*>& loops, bool spatial) {
  LoopsUsed used;
  for (size_t i = 0; i < loops.size(); ++i) used.push_back(false);
  for (const IterVar& iter : block.iters) {
    if ((iter.kind == IterKind::kSpatial) != spatial) continue;
    each_node<VarNode>(iter.binding, [&](const VarNode& var) {
      for (size_t i = 0; i < loops.size(); ++i) used[i] = used[i] || loops[i]->var.get() == &var;
    });
  }
  return used;
}

}  // namespace

Asked asked_by(const Expr& condition, const BlockNode& block) {
  Asked asked;
  each_node<VarNode>(condition, [&](const VarNode& var) {
    for (const IterVar& iter : block.iters)
      if (uses_var(iter.binding, &var)) (iter.kind == IterKind::kSpatial ? asked.places : asked.steps) = true;
  });
  return asked;
}

std::vector<const ForNode*> carried_loops(const BlockNode& block, const std::vector<const ForNode*>& loops) {
  const LoopsUsed steps = loops_used(block, loops, false);
  // Whether a condition that says which steps there are asks for the loop.
  const auto chooses = [&](const ForNode* loop) {
    return std::ranges::any_of(conjuncts(block.predicate), [&](const Expr& condition) {
      if (!uses_var(condition, loop->var.get())) return false;
      const Asked asked = asked_by(condition, block);
      return asked.steps && !asked.places;
    });
  };
  const bool conditional = !is_true(block.predicate);
  const LoopsUsed spatial = conditional ? loops_used(block, loops, true) : LoopsUsed();
  std::vector<const ForNode*> carried;
  for (size_t i = 0; i < loops.size(); ++i)
    if (steps[i] || (conditional && !spatial[i] && chooses(loops[i]))) carried.push_back(loops[i]);
  return carried;
}

bool predicate_only_bounds(const Func& func, const BlockNode& block, const Expr& given) {
  if (is_true(block.predicate)) return true;
  Analyzer analyzer = analyzer_over(func, loops_around(func, &block));
  analyzer.add_assumption(given);
  for (const IterVar& iter : block.iters)
    analyzer.add_assumption(logical_and(ge(iter.binding, int_imm(0)), lt(iter.binding, iter.extent)));
  return std::ranges::all_of(conjuncts(block.predicate), [&](const Expr& c) { return analyzer.can_prove(c); });
}

// --- tiles --------------------------------------------------------------------------------------------------------

namespace {

// A comparison in terms of the loops of the tile: inner parts of whole iterators become the tile's own loop variables.
Expr translate(const Expr& condition, Footprint& footprint, const std::vector<Footprint::Split>& splits,
               const std::vector<Var>& vars) {
  if (!footprint.is_inner(condition)) return condition;
  const auto* compare = condition.as<BinaryNode>();
  if (!compare || compare->a.dtype() != kI64) return nullptr;
  // A loop that is an inner part by itself takes another name, and that is all.
  if (compare->a.kind() == ExprKind::kVar && !footprint.is_inner(compare->b))
    for (size_t i = 0; i < splits.size(); ++i)
      if (splits[i].inner.terms.size() == 1 && splits[i].inner_min == 0 &&
          splits[i].inner.terms.front().expr == compare->a && splits[i].inner.terms.front().coeff == 1)
        return binary(compare->op, vars[i], footprint.analyzer().simplify(compare->b));
  LinearForm form = footprint.analyzer().linear(compare->a);
  form.add(footprint.analyzer().linear(compare->b), -1);
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i].inner.terms.empty()) continue;
    const LinearTerm& first = splits[i].inner.terms.front();
    const int64_t coeff = form.coeff_of(first.expr);
    if (coeff == 0) continue;
    if (coeff % first.coeff != 0) return nullptr;
    const int64_t times = coeff / first.coeff;
    form.add(splits[i].inner, -times);
    form.add_term(vars[i], times);
    form.add_constant(splits[i].inner_min, times);
  }
  const bool left = std::ranges::any_of(form.terms, [&](const LinearTerm& t) { return footprint.is_inner(t.expr); });
  if (left) return nullptr;
  return footprint.analyzer().simplify(binary(compare->op, footprint.analyzer().to_expr(form), int_imm(0)));
}

std::vector<const IterVar*> spatial_iters(const BlockNode& block) {
  std::vector<const IterVar*> iters;
  for (const IterVar& iter : block.iters)
    if (iter.kind == IterKind::kSpatial) iters.push_back(&iter);
  return iters;
}

// Inner loops that no iterator uses, as those are that a loop of one iteration was split into: an instance runs for the
// first of their values, if for any.
VarMap idle_loops(const BlockNode& block, const std::vector<const ForNode*>& inner) {
  VarMap idle;
  const LoopsUsed spatial = loops_used(block, inner, true), steps = loops_used(block, inner, false);
  for (size_t i = 0; i < inner.size(); ++i)
    if (!spatial[i] && !steps[i]) idle[inner[i]->var.get()] = substitute(inner[i]->min, idle);
  return idle;
}

// What a condition asks of the tile: an upper bound is met by the first value of idle loops, if by any; any other
// condition by some value.
Expr without_idle(const Expr& condition, const VarMap& idle) {
  const bool uses = std::ranges::any_of(collect_vars(condition), [&](const Var& v) { return idle.contains(v.get()); });
  if (!uses) return condition;
  const auto* compare = condition.as<BinaryNode>();
  const bool bounds = compare && (compare->op == BinaryOp::kLt || compare->op == BinaryOp::kLe);
  return bounds ? substitute(condition, idle) : bool_imm(true);
}

std::optional<IterationTile> rectangular_tile(const BlockNode& block, Footprint& footprint,
                                              const std::vector<const ForNode*>& carried, const VarMap& idle) {
  IterationTile tile;
  tile.rectangular = true;
  tile.iters = spatial_iters(block);
  std::vector<Footprint::Split> splits;
  std::vector<Var> vars;
  std::vector<const ExprNode*> used;  // inner variables belong to one iterator each
  for (const IterVar* iter : tile.iters) {
    auto split = footprint.split(iter->binding);
    if (!split) return {};
    for (const LinearTerm& term : split->inner.terms) {
      if (std::ranges::find(used, term.expr.get()) != used.end()) return {};
      used.push_back(term.expr.get());
    }
    vars.push_back(make_var("ax" + std::to_string(vars.size())));
    splits.push_back(std::move(*split));
  }
  Analyzer& analyzer = footprint.analyzer();
  for (size_t i = 0; i < splits.size(); ++i) {
    const Range range{int_imm(0), int_imm(splits[i].extent)};
    analyzer.bind(vars[i], range.min, range.extent);
    tile.loops.push_back({vars[i], range});
    LinearForm binding = splits[i].outer;
    binding.add_constant(splits[i].inner_min);
    binding.add_term(vars[i], 1);
    // Sums of different variables are simple already.
    const bool simple = splits[i].extent > 1 && std::ranges::all_of(binding.terms, [](const LinearTerm& t) {
                          const auto* n = t.expr.as<BinaryNode>();
                          return t.expr.kind() == ExprKind::kVar || (n && n->op == BinaryOp::kMin);
                        });
    const Expr sum = analyzer.to_expr(std::move(binding));
    tile.bindings.push_back(simple ? sum : analyzer.simplify(sum));
  }
  for (const Expr& conjunct : conjuncts(block.predicate)) {
    if (uses_any(conjunct, carried)) continue;
    const Expr condition = without_idle(conjunct, idle);
    Expr translated = translate(condition, footprint, splits, vars);
    if (!translated) return {};
    if (!is_true(translated)) tile.predicate = logical_and(tile.predicate, translated);
  }
  return tile;
}

}  // namespace

IterationTile tile_of(const Func& func, const BlockNode& block, const std::vector<const ForNode*>& outer,
                      const std::vector<const ForNode*>& inner) {
  std::vector<const ForNode*> all = outer;
  all.insert(all.end(), inner.begin(), inner.end());
  const std::vector<const ForNode*> carried = carried_loops(block, all);
  const VarMap idle = idle_loops(block, inner);
  Footprint footprint(func, outer, inner);
  if (auto tile = rectangular_tile(block, footprint, carried, idle)) return std::move(*tile);

  IterationTile tile;
  tile.iters = spatial_iters(block);
  VarMap renamed;
  for (const ForNode* loop : inner) {
    const bool used =
        std::ranges::any_of(tile.iters, [&](const IterVar* iter) { return uses_var(iter->binding, loop->var.get()); });
    if (!used) continue;
    Var fresh = make_var(loop->var->name);
    tile.loops.push_back({fresh, substitute(Range{loop->min, loop->extent}, renamed)});
    renamed[loop->var.get()] = fresh;
  }
  for (const IterVar* iter : tile.iters) tile.bindings.push_back(substitute(iter->binding, renamed));
  for (const Expr& condition : conjuncts(block.predicate)) {
    if (!uses_any(condition, carried))
      tile.predicate = logical_and(tile.predicate, substitute(without_idle(condition, idle), renamed));
  }
  return tile;
}

}  // namespace fettle
