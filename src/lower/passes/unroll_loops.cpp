#include "base/check.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

class Folder : public Mutator {
 public:
  using Mutator::rewrite;
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
        if (*known == 1 && loop->loop_kind != ForKind::kThreadBinding)
          return rewrite(substitute(loop->body, {{loop->var.get(), loop->min}}));
      }
      return Mutator::rewrite(s);
    }
    if (const auto* target = s.as<StoreNode>(); target && target->mask && is_zero(target->mask)) return nullptr;
    return Mutator::rewrite(s);
  }
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
    if (!extent) return with(*loop, [&](ForNode& f) {
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
