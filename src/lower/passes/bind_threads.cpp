#include "ir/visit.h"
#include "lower/passes/passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

class VirtualThreadReleaser : public Mutator {
 public:
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);
    const auto* loop = result ? result.as<ForNode>() : nullptr;
    if (!loop || !is_virtual_thread(loop->thread_axis)) return result;
    return with(*loop, [](ForNode& f) {
      f.loop_kind = ForKind::kSerial;
      f.thread_axis.clear();
    });
  }
};

}  // namespace

Result<Func> bind_threads(const Func& func, const Target& target) {
  const ForNode* virtual_loop = nullptr;
  const ForNode* refused = nullptr;
  walk(func->body, [&](const Stmt& s) {
    const auto* loop = s.as<ForNode>();
    if (!loop || loop->loop_kind != ForKind::kThreadBinding) return true;
    if (is_virtual_thread(loop->thread_axis)) virtual_loop = loop;
    if (!has_thread_axis(target, loop->thread_axis)) refused = loop;
    return true;
  });
  if (refused)
    return fail(ErrorCode::E301,
                "loop " + refused->var->name + " is bound to " + refused->thread_axis + ", which a target of kind \"" +
                    target.kind + "\" does not have",
                func->name);
  return virtual_loop ? VirtualThreadReleaser().Mutator::rewrite(func) : func;
}

}  // namespace fettle
