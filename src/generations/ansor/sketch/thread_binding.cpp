#include "generations/ansor/sketch/thread_binding.h"

#include "analysis/verify.h"
#include "generations/ansor/sketch/loop_annotation.h"
#include "ir/visit.h"
#include "lower/device/device.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"

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

Result<ValueRef> draw_threads(Schedule& s, const std::vector<int64_t>& extents) {
  return sample_categorical(
      s, {.candidates = extents, .probabilities = std::vector<double>(extents.size(), 1.0), .name = "thread_binding"});
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

Result<> fits_threads(const Func& func, const Target& target) {
  if (!target.has_threads()) return fail(ErrorCode::E301, "the target has no threads", "fits_threads");
  FETTLE_TRY_VOID(verify(func, target));
  // Threads of a block, shared memory and barriers are what lowering makes of it.
  FETTLE_TRY(const DeviceProgram program, lower_for_device(func, target));
  for (const auto& [name, kernel] : program.kernels)
    if (kernel.block[0] * kernel.block[1] * kernel.block[2] > target.max_threads_per_block)
      return fail(ErrorCode::E230, "too many threads in a block of " + name, "fits_threads");
  return {};
}

Result<> reduce_across_threads(Schedule& s, BlockRef block, const std::vector<int64_t>& extents) {
  FETTLE_TRY(const LoopRef whole, fused_reduction(s, block));
  FETTLE_TRY(const int64_t terms, extent_of_loops(s, {whole}));
  std::vector<int64_t> fitting;
  for (const int64_t extent : extents)
    if (terms % extent == 0 && terms > 0) fitting.push_back(extent);
  if (fitting.empty())
    return fail(ErrorCode::E235, "no number of threads divides the reduction", "reduce_across_threads");
  FETTLE_TRY(const ValueRef threads, draw_threads(s, fitting));
  FETTLE_TRY(const auto parts, split(s, {.loop = whole, .factors = {kInfer, IntRef(threads)}}));
  FETTLE_TRY(const BlockRef partial, rfactor(s, {.block = block, .loop = parts[1]}));
  FETTLE_TRY(const auto loops, get_loops(s, {block}));
  const std::vector<LoopRef> spatial(loops.begin(), loops.end() - 1);
  if (spatial.empty()) return fail(ErrorCode::E235, "nothing is spatial", "reduce_across_threads");
  FETTLE_TRY(const LoopRef blocks, fused_loop(s, spatial));
  FETTLE_TRY_VOID(compute_at(s, {.block = partial, .loop = blocks}));
  FETTLE_TRY_VOID(bind(s, {.loop = blocks, .thread_axis = "blockIdx.x"}));
  FETTLE_TRY(const auto inner, get_loops(s, {partial}));
  return bind(s, {.loop = inner.at(inner.size() - 2), .thread_axis = "threadIdx.x"});
}

}  // namespace fettle
