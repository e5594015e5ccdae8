#include <optional>

#include "base/check.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

// The least and the greatest lane of what is known.
struct Lanes {
  int64_t least = 0, greatest = -1;
  bool known() const { return least <= greatest; }
};

Lanes lanes_of(const Expr& e) {
  if (const auto* spread = e.as<BroadcastNode>())
    if (const int64_t* value = as_int(spread->value)) return {*value, *value};
  if (const auto* steps = e.as<RampNode>()) {
    const int64_t* base = as_int(steps->base);
    const int64_t* stride = as_int(steps->stride);
    if (base && stride && *stride > 0) return {*base, *base + *stride * (e.dtype().lanes - 1)};
  }
  return {};
}

// All lanes on, all off, or neither.
std::optional<bool> mask_value(const Expr& mask) {
  const auto* spread = mask ? mask.as<BroadcastNode>() : nullptr;
  const int64_t* value = spread ? as_int(spread->value) : nullptr;
  if (value) return *value != 0;
  const auto* c = mask ? mask.as<BinaryNode>() : nullptr;
  if (!c) return {};
  if (c->op == BinaryOp::kAnd) {
    const auto a = mask_value(c->a), b = mask_value(c->b);
    if ((a && !*a) || (b && !*b)) return false;
    if (a && b) return true;
    return {};
  }
  if (c->op != BinaryOp::kLt && c->op != BinaryOp::kLe) return {};
  const Lanes a = lanes_of(c->a), b = lanes_of(c->b);
  if (!a.known() || !b.known()) return {};
  const int64_t equal = c->op == BinaryOp::kLe ? 1 : 0;
  if (a.greatest < b.least + equal) return true;
  if (a.least >= b.greatest + equal) return false;
  return {};
}

class Folder : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* var = e.as<VarNode>()) {
      const auto found = values_.find(var);
      return found == values_.end() ? e : found->second;
    }
    const Expr result = Mutator::rewrite(e);
    if (const auto* source = result.as<LoadNode>(); source && source->mask && mask_value(source->mask) == true)
      return load(source->buffer, source->indices);
    if (const auto* choice = result.as<SelectNode>(); choice && choice->condition.dtype().is_vector())
      if (const auto known = mask_value(choice->condition)) return *known ? choice->if_true : choice->if_false;
    // Lanes that are off read zero as it is.
    if (const auto* choice = result.as<SelectNode>(); choice && is_const_zero(choice->if_false))
      if (const auto* source = choice->if_true.as<LoadNode>();
          source && source->mask && structural_equal(source->mask, choice->condition))
        return choice->if_true;
    return result;
  }
  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    if (const auto* choice = s.as<IfNode>()) {
      Expr condition = rewrite(choice->condition);
      if (const int64_t* known = as_int(condition)) return rewrite(*known ? choice->then_body : choice->else_body);
      return Mutator::rewrite(s);
    }
    if (const auto* loop = s.as<ForNode>()) {
      Expr extent = rewrite(loop->extent);
      if (const int64_t* known = as_int(extent)) {
        if (*known <= 0) return nullptr;
        if (*known == 1 && loop->loop_kind != ForKind::kThreadBinding) {
          values_[loop->var.get()] = rewrite(loop->min);
          return rewrite(loop->body);
        }
      }
      return Mutator::rewrite(s);
    }
    if (const auto* target = s.as<StoreNode>(); target && target->mask) {
      const Expr mask = rewrite(target->mask);
      const auto known = mask_value(mask);
      if (is_zero(mask) || known == false) return nullptr;
      if (known == true) return store(target->buffer, {rewrite(target->indices[0])}, rewrite(target->value));
    }
    return Mutator::rewrite(s);
  }

 private:
  VarMap values_;  // of loops of one iteration
};

class Unroller : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (!loop || loop->loop_kind != ForKind::kUnrolled) return Mutator::rewrite(s);
    Stmt body = rewrite(loop->body);
    const int64_t* extent = as_int(loop->extent);
    if (!extent)
      return with(*loop, [&](ForNode& f) {
        f.loop_kind = ForKind::kSerial;
        f.body = body;
      });
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < *extent; ++i) {
      Stmt copy = substitute(body, {{loop->var.get(), loop->min + i}});
      copies.push_back(i == 0 ? copy : rename_bound(copy));
    }
    return seq(std::move(copies));
  }
};

}  // namespace

void split_conjuncts(const Expr& condition, std::vector<Expr>& conjuncts) {
  const auto* both = condition.as<BinaryNode>();
  if (both && both->op == BinaryOp::kAnd) {
    split_conjuncts(both->a, conjuncts);
    split_conjuncts(both->b, conjuncts);
  } else {
    conjuncts.push_back(condition);
  }
}

Stmt fold_control(const Stmt& body) { return Folder().rewrite(body); }

Stmt unroll_loops(const Stmt& body) {
  Stmt unrolled = Unroller().rewrite(body);
  return fold_control(unrolled);
}

}  // namespace fettle
