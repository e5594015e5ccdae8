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

Result<Func> check(const Func& func, const Target& target) {
  const ForNode* refused = nullptr;
  walk(func->body, [&](const Stmt& s) {
    const auto* loop = s.as<ForNode>();
    if (loop && loop->loop_kind == ForKind::kThreadBinding && !is_virtual_thread(loop->thread_axis)) refused = loop;
    return !refused;
  });
  if (refused)
    return fail(ErrorCode::E301,
                "loop " + refused->var->name + " is bound to " + refused->thread_axis + ", which a target of kind \"" +
                    target.kind + "\" does not have",
                func->name);
  if (!func->int_params.empty())
    return fail(
        ErrorCode::E301,
        "streams of instructions have sizes that are known, and there is a parameter " + func->int_params[0].var->name,
        func->name);
  return func;
}

Result<Func> on_body(const Func& func, const Result<Stmt>& body) {
  FETTLE_TRY(const Stmt made, body);
  return with(func, [&](FuncNode& f) { f.body = made; });
}

struct Pass {
  std::string_view name;
  Result<Func> (*run)(const Func& func, const Target& target);
};

constexpr Pass kPasses[] = {
    {"check", check},
    {"mark_pipelines", [](const Func& f, const Target&) -> Result<Func> { return mark_pipelines(f); }},
    {"flatten_blocks", [](const Func& f, const Target&) -> Result<Func> { return flatten_blocks(f); }},
    {"serialize", [](const Func& f, const Target&) -> Result<Func> { return Serializer().Mutator::rewrite(f); }},
    {"compact_buffers", [](const Func& f, const Target&) -> Result<Func> { return compact_buffers(f); }},
    {"pipeline_loops", [](const Func& f, const Target&) { return on_body(f, pipeline_loops(f->body)); }},
    {"tighten_loops", [](const Func& f, const Target&) { return on_body(f, tighten_loops(f->body, {})); }},
    {"flatten_accesses", [](const Func& f, const Target&) -> Result<Func> { return flatten_accesses(f); }},
    {"fold_control", [](const Func& f, const Target&) { return on_body(f, fold_control(f->body)); }},
    {"issue_tasks", [](const Func& f, const Target&) { return on_body(f, issue_tasks(f->body)); }},
    {"interleave_virtual_threads",
     [](const Func& f, const Target& t) { return on_body(f, interleave_virtual_threads(f->body, t)); }},
    // What the copies of virtual threads made constant.
    {"flatten_accesses", [](const Func& f, const Target&) -> Result<Func> { return flatten_accesses(f); }},
};

}  // namespace

Result<Func> lower_decoupled(const Func& scheduled, const Target& target) {
  Func func = scheduled;
  for (const Pass& pass : kPasses) {
    FETTLE_TRY(func, pass.run(func, target));
  }
  return func;
}

}  // namespace fettle
