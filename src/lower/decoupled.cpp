#include "lower/decoupled.h"

#include "ir/visit.h"
#include "lower/passes/decoupled_passes.h"
#include "lower/passes/passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// Every loop is serial but those of virtual threads: units run whole nests.
class Serializer : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);
    const auto* loop = result ? result.as<ForNode>() : nullptr;
    if (!loop || loop->loop_kind == ForKind::kSerial || loop->loop_kind == ForKind::kThreadBinding) return result;
    return with(*loop, [](ForNode& f) { f.loop_kind = ForKind::kSerial; });
  }
};

Result<> check_threads(const Func& func, const Target& target) {
  const ForNode* refused = nullptr;
  walk(func->body, [&](const Stmt& s) {
    const auto* loop = s.as<ForNode>();
    if (loop && loop->loop_kind == ForKind::kThreadBinding && !is_virtual_thread(loop->thread_axis)) refused = loop;
    return !refused;
  });
  if (!refused) return {};
  return fail(ErrorCode::E301,
              "loop " + refused->var->name + " is bound to " + refused->thread_axis + ", which a target of kind \"" +
                  target.kind + "\" does not have",
              func->name);
}

}  // namespace

Result<Func> lower_decoupled(const Func& scheduled, const Target& target) {
  FETTLE_TRY_VOID(check_threads(scheduled, target));
  if (!scheduled->int_params.empty())
    return fail(ErrorCode::E301,
                "streams of instructions have sizes that are known, and there is a parameter " +
                    scheduled->int_params[0].var->name,
                scheduled->name);
  Func func = flatten_blocks(mark_pipelines(scheduled));
  func = Serializer().Mutator::rewrite(func);
  func = compact_buffers(func);
  Stmt body = pipeline_loops(func->body);
  body = tighten_loops(body, {});
  func = flatten_accesses(with(func, [&](FuncNode& f) { f.body = body; }));
  body = fold_control(func->body);
  FETTLE_TRY(body, issue_tasks(body));
  FETTLE_TRY(body, interleave_virtual_threads(body, target));
  // What the copies of virtual threads made constant.
  func = flatten_accesses(with(func, [&](FuncNode& f) { f.body = body; }));
  return func;
}

}  // namespace fettle
