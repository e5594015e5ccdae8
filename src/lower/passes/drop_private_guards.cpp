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
      const auto* target = innermost_store(choice->then_body);
      if (target && target->buffer->scope == kScopeRegister && in_bounds(target->buffer, target->indices) &&
          reads_in_bounds(target->value)) {
        return rewrite(choice->then_body);
      }
    }
    return Mutator::rewrite(s);
  }

 private:
  // The store that is all there is below nested guards, or null.
  static const StoreNode* innermost_store(const Stmt& s) { return s.as<StoreNode>(); }

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
