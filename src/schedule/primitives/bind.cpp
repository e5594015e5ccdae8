#include "schedule/primitives/bind.h"

#include <algorithm>

#include "ir/path.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/placement.h"
#include "schedule/edit/steps.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// True if what `inner` does depends on the iteration of `outer`, perhaps by an iterator of a block between the two.
bool depends_on(const ForNode& inner, const ForNode& outer) {
  const Stmt nest{Ref<const StmtNode>(&inner)};
  std::vector<Var> moving{outer.var};
  for (const Stmt& s : path_to(outer.body, &inner)) {
    const auto* block = s.as<BlockNode>();
    for (size_t i = 0; block && i < block->iters.size(); ++i)
      if (std::ranges::any_of(moving, [&](const Var& var) { return uses_var(block->iters[i].binding, var.get()); }))
        moving.push_back(block->iters[i].var);
  }
  return std::ranges::any_of(moving, [&](const Var& var) { return uses_var(nest, var.get()); });
}

// A nest inside a loop over the same threads, that each of its iterations runs whole: instead, each thread can do its
// share.
bool can_be_shared(const ForNode& outer, const ForNode& inner) {
  if (depends_on(inner, outer)) return false;
  return !find_node<StoreNode>(inner.body, [](const StoreNode& target) {
    return target.buffer->scope == kScopeRegister || target.buffer->scope == "local";
  });
}

// A loop on the way to `loop`, or beneath it, that is bound to the axis and cannot share its threads; null if there is
// none.
const ForNode* find_bound(const Func& func, const ForNode& loop, const std::string& axis) {
  const ForNode* found = nullptr;
  const bool threads = is_block_thread_axis(axis);
  for (const Stmt& s : path_to(func->body, &loop))
    if (const auto* outer = s.as<ForNode>(); outer && outer != &loop && outer->thread_axis == axis)
      if (!threads || !can_be_shared(*outer, loop)) found = outer;
  if (found) return found;
  return find_node<ForNode>(loop.body, [&](const ForNode& inner) {
    return inner.thread_axis == axis && (!threads || !can_be_shared(loop, inner));
  });
}

Result<Applied> apply_bind(const Schedule& s, const BindArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  const ForNode& loop = *stmt.as<ForNode>();
  if (!is_thread_axis(args.thread_axis))
    return refused(ErrorCode::E241, s.func(), &loop, "there is no thread axis \"{}\"", args.thread_axis);
  if (!is_virtual_thread(args.thread_axis))
    if (const ForNode* other = find_bound(s.func(), loop, args.thread_axis))
      return refused(ErrorCode::E207, s.func(), other, "loop {} is bound to {} already", other->var->name,
                     args.thread_axis);
  FETTLE_TRY(Applied applied,
             with_loop_kind(s, args.loop, ForKind::kThreadBinding, /*constant=*/false, /*independent=*/true));
  const ForNode* bound = find_loop(applied.func->body, loop.var.get());
  const Stmt named = with(*bound, [&](ForNode& f) { f.thread_axis = args.thread_axis; });
  applied.func = replace_owned(std::move(applied.func), bound, named);
  return applied;
}

}  // namespace

extern constinit const PrimitiveDef bind_def = define_primitive<BindArgs, apply_bind>("bind", 1);

Result<> bind(Schedule& s, const BindArgs& args) { return run<void>(s, bind_def, args); }

}  // namespace fettle
