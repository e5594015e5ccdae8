#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

Stmt sink(const Stmt& s, const Expr& guard) {
  if (!s) return s;
  if (const auto* all = s.as<SeqNode>()) {
    std::vector<Stmt> stmts;
    for (const Stmt& child : all->stmts) stmts.push_back(sink(child, guard));
    return seq(std::move(stmts));
  }
  const auto* loop = s.as<ForNode>();
  if (loop && !reads_memory(loop->min) && !reads_memory(loop->extent)) {
    const Stmt body = sink(loop->body, guard);
    return body ? with_body(*loop, body) : Stmt();
  }
  const auto* choice = s.as<IfNode>();
  if (choice && !reads_memory(choice->condition))
    return seq({sink(choice->then_body, logical_and(guard, choice->condition)),
                sink(choice->else_body, logical_and(guard, logical_not(choice->condition)))});
  const auto* name = s.as<LetNode>();
  if (name && !reads_memory(name->value)) return let(name->var, name->value, sink(name->body, guard));
  return is_true(guard) ? s : if_then(guard, s);
}

Stmt push(const Stmt& s, const ForNode& threads) {
  if (!s || !uses_var(s, threads.var.get())) return s;
  const auto free_of = [&](const Expr& e) { return !uses_var(e, threads.var.get()); };
  if (const auto* all = s.as<SeqNode>()) {
    std::vector<Stmt> stmts;
    for (const Stmt& child : all->stmts) stmts.push_back(push(child, threads));
    return seq(std::move(stmts));
  }
  // Lanes that become one access stay together.
  if (const auto* loop = s.as<ForNode>();
      loop && free_of(loop->min) && free_of(loop->extent) && !loop->annotations.find(kLanesKey))
    return with_body(*loop, push(loop->body, threads));
  if (const auto* name = s.as<LetNode>(); name && free_of(name->value) && !reads_memory(name->value))
    return let(name->var, name->value, push(name->body, threads));
  const Var copy = make_var(threads.var->name);
  return make_for(copy, threads.min, threads.extent, substitute(s, {{threads.var.get(), copy}}),
                  as_int(threads.extent) ? ForKind::kUnrolled : ForKind::kSerial);
}

}  // namespace

Stmt sink_guards(const Stmt& body) { return sink(body, nullptr); }

Stmt unroll_virtual_threads(const Stmt& body) {
  return rewrite_each<ForNode>(
      body, [](const ForNode& loop) { return is_virtual_thread(loop.thread_axis) ? push(loop.body, loop) : Stmt(); });
}

}  // namespace fettle
