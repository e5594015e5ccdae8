#include <limits>

#include "ir/compare.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

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

// e where it is neutral unless `condition` holds: select(c, x, 0), products and casts of such.
Guarded find_guard(const Expr& e, Neutral neutral) {
  if (const auto* choice = e.as<SelectNode>()) {
    if (is_neutral(choice->if_false, neutral)) return {choice->condition, choice->if_true};
    if (is_neutral(choice->if_true, neutral)) return {logical_not(choice->condition), choice->if_false};
    return {};
  }
  if (neutral != Neutral::kZero) return {};
  if (const auto* convert = e.as<CastNode>()) {
    Guarded inner = find_guard(convert->a, neutral);
    return inner.condition ? Guarded{inner.condition, cast(convert->dtype, inner.value)} : inner;
  }
  const auto* product = e.as<BinaryNode>();
  if (!product || product->op != BinaryOp::kMul) return {};
  Guarded a = find_guard(product->a, neutral), b = find_guard(product->b, neutral);
  if (!a.condition && !b.condition) return {};
  return {logical_and(a.condition, b.condition),
          binary(BinaryOp::kMul, a.condition ? a.value : product->a, b.condition ? b.value : product->b)};
}

class Annihilator : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    const auto* target = s.as<StoreNode>();
    if (!target) return Mutator::rewrite(s);
    const auto* update = target->value.as<BinaryNode>();
    if (!update) return s;
    Neutral neutral;
    if (update->op == BinaryOp::kAdd)
      neutral = Neutral::kZero;
    else if (update->op == BinaryOp::kMax)
      neutral = Neutral::kLowest;
    else if (update->op == BinaryOp::kMin)
      neutral = Neutral::kHighest;
    else
      return s;
    const auto is_old = [&](const Expr& e) {
      const auto* old = e.as<LoadNode>();
      if (!old || old->buffer != target->buffer || old->indices.size() != target->indices.size()) return false;
      for (size_t d = 0; d < old->indices.size(); ++d)
        if (!structural_equal(old->indices[d], target->indices[d])) return false;
      return true;
    };
    const bool old_first = is_old(update->a);
    if (!old_first && !is_old(update->b)) return s;
    const Expr& old = old_first ? update->a : update->b;
    Guarded guarded = find_guard(old_first ? update->b : update->a, neutral);
    if (!guarded.condition) return s;
    return if_then(guarded.condition,
                   store(target->buffer, target->indices, binary(update->op, old, guarded.value), target->mask));
  }
};

}  // namespace

Func annihilate_guards(const Func& func) { return Annihilator().Mutator::rewrite(func); }

}  // namespace fettle
