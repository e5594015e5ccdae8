#include <fmt/format.h>

#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "target/thread_axes.h"

namespace fettle {
Result<> check_thread_axes(const Func& func, const Target& target) {
  Result<> result;
  each_node<ForNode>(func->body, [&](const ForNode& loop) {
    if (loop.loop_kind == ForKind::kThreadBinding && !has_thread_axis(target, loop.thread_axis))
      result = fail(ErrorCode::E301,
                    fmt::format("loop {} is bound to {}, which a target of kind \"{}\" does not have", loop.var->name,
                                loop.thread_axis, target.kind),
                    func->name);
  });
  return result;
}

Stmt serialized(const ForNode& loop) {
  return with(loop, [](ForNode& f) {
    f.loop_kind = ForKind::kSerial;
    f.thread_axis.clear();
  });
}

Result<Func> bind_threads(const Func& func, const Target& target) {
  FETTLE_TRY_VOID(check_thread_axes(func, target));
  return with_body(func, rewrite_each<ForNode>(func->body, [](const ForNode& loop) {
                     return is_virtual_thread(loop.thread_axis) ? serialized(loop) : Stmt();
                   }));
}

}  // namespace fettle
