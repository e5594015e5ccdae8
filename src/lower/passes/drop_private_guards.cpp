#include "arith/analyzer.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

// The shape before flattening tells whether a surplus lane still lies in the buffer (padded packed panels do).
class GuardDropper : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    if (const auto* loop = s.as<ForNode>()) {
      analyzer_.bind(loop->var, loop->min, loop->extent);
      return Mutator::rewrite(s);
    }
    if (const auto* choice = s.as<IfNode>(); choice && !choice->else_body) {
      const auto* target = choice->then_body.as<StoreNode>();
      if (target && target->buffer->scope == kScopeRegister) return if_needed(*choice, *target);
    }
    return Mutator::rewrite(s);
  }

 private:
  // Keeps the conjuncts without which something would be out of bounds.
  Stmt if_needed(const IfNode& choice, const StoreNode& target) {
    std::vector<Expr> conjuncts;
    split_conjuncts(choice.condition, conjuncts);
    for (size_t i = conjuncts.size(); i-- > 0;) {
      Expr others;
      for (size_t j = 0; j < conjuncts.size(); ++j)
        if (j != i) others = logical_and(others, conjuncts[j]);
      auto scope = analyzer_.assume(others);
      if (in_bounds(target.buffer, target.indices) && reads_in_bounds(target.value))
        conjuncts.erase(conjuncts.begin() + static_cast<ptrdiff_t>(i));
    }
    Expr condition;
    for (const Expr& conjunct : conjuncts) condition = logical_and(condition, conjunct);
    return is_true(condition) ? choice.then_body : if_then(condition, choice.then_body);
  }

  bool in_bounds(const Buffer& buffer, const std::vector<Expr>& indices) {
    for (size_t d = 0; d < indices.size(); ++d)
      if (!analyzer_.can_prove(le(Expr(0), indices[d])) || !analyzer_.can_prove(lt(indices[d], buffer->shape[d])))
        return false;
    return true;
  }

  bool reads_in_bounds(const Expr& value) {
    bool all = true;
    walk(value, [&](const Expr& e) {
      if (const auto* source = e.as<LoadNode>()) all &= in_bounds(source->buffer, source->indices);
      return all;
    });
    return all;
  }

  Analyzer analyzer_;
};

}  // namespace

Func drop_private_guards(const Func& func) { return GuardDropper().Mutator::rewrite(func); }

}  // namespace fettle
