#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"

namespace fettle {

Func alternate_loops(const Func& func) {
  Var turn;
  const Stmt body = rewrite_each<ForNode>(func->body, [&](const ForNode& loop) {
    if (loop.loop_kind != ForKind::kSerial || !loop.annotations.find(kAlternatesKey)) return Stmt();
    if (!turn) turn = make_var("turn", kI64);
    const Expr i(loop.var), last = loop.min + loop.extent - 1;
    const Expr at = i + Expr(turn) * (loop.min + last - i * 2);
    return with(loop, [&](ForNode& f) {
      f.annotations.erase(kAlternatesKey);
      f.body = substitute(loop.body, {{loop.var.get(), at}});
    });
  });
  if (!turn) return func;
  return with(func, [&](FuncNode& f) {
    f.body = body;
    f.int_params.push_back({.var = turn, .max = 1});
  });
}

}  // namespace fettle
