#include "ir/rewrite.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

const ForNode* parallel_loop(const Stmt& s) {
  const auto* loop = s.as<ForNode>();
  return loop && loop->loop_kind == ForKind::kParallel ? loop : nullptr;
}

class Collapser : public Mutator {
 public:
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const Stmt result = Mutator::rewrite(s);  // innermost first
    const ForNode* loop = parallel_loop(result);
    const ForNode* inner = loop ? parallel_loop(loop->body) : nullptr;
    if (!inner || uses_var(inner->min, loop->var.get()) || uses_var(inner->extent, loop->var.get())) return result;
    const Var both = make_var(loop->var->name + "_" + inner->var->name, loop->var->dtype);
    const Expr turn = Expr(loop->var) - loop->min;
    const Stmt body = let(inner->var, inner->min + (Expr(both) - turn * inner->extent), inner->body);
    return with(*loop, [&](ForNode& f) {
      f.var = both;
      f.min = Expr(0);
      f.extent = loop->extent * inner->extent;
      f.body = let(loop->var, loop->min + floordiv(both, inner->extent), body);
    });
  }
};

}  // namespace

Func collapse_parallel(const Func& func) { return with_body(func, Collapser().rewrite(func->body)); }

}  // namespace fettle
