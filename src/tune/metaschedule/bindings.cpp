#include "tune/metaschedule/bindings.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/split.h"
#include "target/thread_axes.h"
#include "tune/sketch/loop_annotation.h"

namespace fettle {

bool is_unbound(const Func& func, const BlockNode& block) {
  const auto loops = loops_around(func, &block);
  if (loops.empty()) return false;
  bool bound = false;
  walk(Stmt(Ref<const StmtNode>(loops.front())), [&](const Stmt& s) {
    const auto* loop = s.as<ForNode>();
    bound = bound || (loop && loop->loop_kind == ForKind::kThreadBinding);
    return !bound;
  });
  return !bound;
}

Result<> bind_outer_loops(Schedule& s, BlockRef block, const IntRef& threads) {
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  std::vector<LoopRef> outer;
  FETTLE_TRY(outer, outer_spatial_loops(s, block));
  if (outer.size() + 1 == loops.size()) {  // a loop is left out there, which can be bound as well
    FETTLE_TRY(const auto inner, inner_spatial_loops(s, block));
    if (!inner.empty() && inner.size() >= loops.size()) outer = loops;
  }
  if (outer.empty()) {
    FETTLE_TRY(const auto inner, inner_spatial_loops(s, block));
    if (loops.size() != 1 || inner.size() != 1) return {};
    outer = loops;
  }
  FETTLE_TRY(const LoopRef all, fused_loop(s, outer));
  FETTLE_TRY(const auto parts, split(s, {.loop = all, .factors = {kInfer, threads}, .tail = Tail::kGuard}));
  FETTLE_TRY_VOID(bind(s, {.loop = parts[0], .thread_axis = "blockIdx.x"}));
  return bind(s, {.loop = parts[1], .thread_axis = "threadIdx.x"});
}

Result<> share_among_threads(Schedule& s, BlockRef copy) {
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {copy}));
  // Its own loops: those that hold nothing else.
  std::vector<LoopRef> own;
  int64_t threads = 0;
  for (const LoopRef& ref : loops) {
    FETTLE_TRY(const Stmt stmt, s.loop(ref));
    const auto& loop = *stmt.as<ForNode>();
    if (loop.thread_axis == "threadIdx.x")
      if (const int64_t* extent = as_int(loop.extent)) threads = *extent;
    if (blocks_under(loop.body).size() == 1 && loop.loop_kind == ForKind::kSerial)
      own.push_back(ref);
    else
      own.clear();
  }
  if (own.empty()) return {};
  if (threads == 0) {
    // The nest's threads may stand beside the copy, further inside.
    FETTLE_TRY(const Stmt outermost, s.loop(loops.front()));
    walk(outermost, [&](const Stmt& inner) {
      const auto* loop = inner.as<ForNode>();
      if (loop && loop->thread_axis == "threadIdx.x")
        if (const int64_t* extent = as_int(loop->extent)) threads = *extent;
      return threads == 0;
    });
  }
  if (threads <= 1) return {};
  FETTLE_TRY(const LoopRef all, fused_loop(s, own));
  FETTLE_TRY(const auto parts, split(s, {.loop = all, .factors = {kInfer, threads}, .tail = Tail::kGuard}));
  return bind(s, {.loop = parts[1], .thread_axis = "threadIdx.x"});
}

}  // namespace fettle
