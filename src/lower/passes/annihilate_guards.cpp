#include <algorithm>
#include <limits>
#include <vector>

#include "arith/analyzer.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

enum class Neutral { kZero, kLowest, kHighest };

bool is_neutral(const Expr& e, Neutral neutral) {
  if (neutral == Neutral::kZero) return is_const_zero(e);
  const auto* imm = e.as<FloatImmNode>();
  if (!imm) return false;
  const double most = std::numeric_limits<float>::max();
  return neutral == Neutral::kLowest ? imm->value <= -most : imm->value >= most;
}

struct Guarded {
  Expr condition;  // null: not guarded
  Expr value;      // what remains where it holds
};

// The lanes of vectorized loops around, and what is known of all loops.
struct Lanes {
  std::vector<const VarNode*> vars;
  Analyzer* known = nullptr;

  bool decide(const Expr& e) const {
    return std::ranges::any_of(vars, [&](const VarNode* lane) { return uses_var(e, lane); });
  }
};

// Of select(c, x, 0): what of c lanes decide stays a selection.
Guarded without_lanes(const SelectNode& choice, const Lanes& lanes) {
  Expr of_all, of_lanes;
  for (Expr conjunct : conjuncts(choice.condition)) {
    if (lanes.decide(conjunct)) conjunct = lanes.known->simplify(conjunct);  // of a tile: tiles[(j0 * 32 + lane) // 32]
    const bool by_lane = lanes.decide(conjunct);
    Expr& part = by_lane ? of_lanes : of_all;
    part = logical_and(part, conjunct);
  }
  if (!of_lanes) return {choice.condition, choice.if_true};
  return {of_all, select(of_lanes, choice.if_true, choice.if_false)};
}

// e where it is neutral unless `condition` holds: select(c, x, 0), products and casts of such.
Guarded find_guard(const Expr& e, Neutral neutral, const Lanes& lanes) {
  if (const auto* choice = e.as<SelectNode>()) {
    Guarded outer;
    if (is_neutral(choice->if_false, neutral))
      outer = without_lanes(*choice, lanes);
    else if (is_neutral(choice->if_true, neutral))
      outer = {logical_not(choice->condition), choice->if_false};
    else
      return {};
    if (!outer.condition) return outer;
    const Guarded inner = find_guard(outer.value, neutral, lanes);
    return inner.condition ? Guarded{logical_and(outer.condition, inner.condition), inner.value} : outer;
  }
  if (neutral != Neutral::kZero) return {};
  if (const auto* convert = e.as<CastNode>()) {
    Guarded inner = find_guard(convert->a, neutral, lanes);
    return inner.condition ? Guarded{inner.condition, cast(convert->dtype, inner.value)} : inner;
  }
  const auto* product = e.as<BinaryNode>();
  if (!product || product->op != BinaryOp::kMul) return {};
  Guarded a = find_guard(product->a, neutral, lanes), b = find_guard(product->b, neutral, lanes);
  if (!a.condition && !b.condition) return {};
  return {logical_and(a.condition, b.condition),
          binary(BinaryOp::kMul, a.condition ? a.value : product->a, b.condition ? b.value : product->b)};
}

class Annihilator : public StmtMutator {
 public:
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* target = s.as<StoreNode>();
    if (!target) {
      const auto* loop = s.as<ForNode>();
      const bool vectorized = loop && loop->loop_kind == ForKind::kVectorized;
      if (loop) analyzer_.bind(loop->var, loop->min, loop->extent);
      if (vectorized) lanes_.vars.push_back(loop->var.get());
      Stmt result = Mutator::rewrite(s);
      if (vectorized) lanes_.vars.pop_back();
      return result;
    }
    const auto* update = target->value.as<BinaryNode>();
    if (!update) return s;
    Neutral neutral;
    if (update->op == BinaryOp::kAdd)
      neutral = Neutral::kZero;
    else if (is_maximum(update->op))
      neutral = Neutral::kLowest;
    else if (update->op == BinaryOp::kMin)
      neutral = Neutral::kHighest;
    else
      return s;
    const auto is_old = [&](const Expr& e) {
      const auto* old = e.as<LoadNode>();
      return old && old->buffer == target->buffer && structural_equal(old->indices, target->indices);
    };
    const bool old_first = is_old(update->a);
    if (!old_first && !is_old(update->b)) return s;
    // ordered_max(old, -inf) is another number where old is NaN.
    if (old_first && update->op == BinaryOp::kOrderedMax) return s;
    const Expr& old = old_first ? update->a : update->b;
    // Sums of products in registers take a zero for a lane that is off: only what is read for it is masked, not what is
    // read for all lanes, nor the sum.
    const bool adds_zeros = neutral == Neutral::kZero && target->buffer->scope == kScopeRegister;
    const Expr& added = old_first ? update->b : update->a;
    const bool is_product = added.as<BinaryNode>() || added.as<CastNode>();
    Guarded guarded = find_guard(added, neutral, adds_zeros && is_product ? lanes_ : Lanes());
    if (!guarded.condition) return s;
    return if_then(guarded.condition,
                   store(target->buffer, target->indices, accumulated(update->op, old, guarded.value), target->mask));
  }

 private:
  Analyzer analyzer_;
  Lanes lanes_{.known = &analyzer_};
};

}  // namespace

Func annihilate_guards(const Func& func) { return Annihilator().Mutator::rewrite(func); }

}  // namespace fettle
