#include "schedule/primitives/bind.h"

#include "ir/visit.h"
#include "schedule/nest.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// A loop on the way to `loop`, or beneath it, that is bound to the axis; null if there is none.
const ForNode* find_bound(const Func& func, const ForNode& loop, const std::string& axis) {
  const ForNode* found = nullptr;
  const auto look = [&](const Stmt& s) {
    if (const auto* other = s.as<ForNode>(); other && other != &loop && other->thread_axis == axis) found = other;
    return !found;
  };
  for (const Stmt& s : path_to(func->body, &loop)) look(s);
  walk(loop.body, look);
  return found;
}

Result<Applied> apply_bind(const Schedule& s, const BindArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  const ForNode& loop = *stmt.as<ForNode>();
  if (!is_thread_axis(args.thread_axis))
    return fail_at(ErrorCode::E224, s.func(), &loop, "there is no thread axis \"" + args.thread_axis + "\"", {});
  if (!is_virtual_thread(args.thread_axis))
    if (const ForNode* other = find_bound(s.func(), loop, args.thread_axis))
      return fail_at(ErrorCode::E207, s.func(), other,
                     "loop " + other->var->name + " is bound to " + args.thread_axis + " already", {});
  FETTLE_TRY_VOID(with_loop_kind(s, args.loop, ForKind::kThreadBinding, /*constant=*/false, /*independent=*/true));
  const Stmt bound = with(loop, [&](ForNode& f) {
    f.loop_kind = ForKind::kThreadBinding;
    f.thread_axis = args.thread_axis;
  });
  return Applied{replace_in(s.func(), &loop, bound), {}};
}

}  // namespace

constinit const PrimitiveDef bind_def = define_primitive<BindArgs, apply_bind>("bind", 1);

Result<> bind(Schedule& s, const BindArgs& args) {
  FETTLE_TRY_VOID(s.step(bind_def, args));
  return {};
}

}  // namespace fettle
