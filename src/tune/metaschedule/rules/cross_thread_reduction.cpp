#include "ir/visit.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/primitives/split.h"
#include "tune/metaschedule/bindings.h"
#include "tune/metaschedule/rules/tile_block.h"
#include "tune/metaschedule/schedule_rule.h"
#include "tune/sketch/conditions.h"
#include "tune/sketch/loop_annotation.h"

namespace fettle {
namespace {

//   for i: for k: C[i] += A[i, k]
//   →   for i blockIdx.x: for t in T threadIdx.x: for k_0: C_rf[t, i] += A[i, k_0*T + t];   for t in T: C[i] += C_rf[t,
//   i]
Result<Schedule> across_threads(const Schedule& before, const std::string& name, const std::vector<int64_t>& extents) {
  Schedule s = before;
  s.set_address_prefix("cross_thread_reduction/" + name);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const LoopRef whole, fused_reduction(s, block));
  FETTLE_TRY(const ValueRef threads, sample_categorical(s, {.candidates = extents,
                                                            .probabilities = std::vector<double>(extents.size(), 1.0),
                                                            .name = "thread_binding"}));
  FETTLE_TRY(const auto parts, split(s, {.loop = whole, .factors = {kInfer, IntRef(threads)}, .tail = Tail::kGuard}));
  FETTLE_TRY(const BlockRef partial, rfactor(s, {.block = block, .loop = parts[1]}));
  FETTLE_TRY(const auto loops, get_loops(s, {block}));
  std::vector<LoopRef> spatial(loops.begin(), loops.end() - 1);
  if (spatial.empty()) return fail(ErrorCode::E235, "nothing is spatial", "cross_thread_reduction");
  FETTLE_TRY(const LoopRef blocks, fused_loop(s, spatial));
  FETTLE_TRY_VOID(compute_at(s, {.block = partial, .loop = blocks}));
  FETTLE_TRY_VOID(bind(s, {.loop = blocks, .thread_axis = "blockIdx.x"}));
  FETTLE_TRY(const auto inner, get_loops(s, {partial}));
  FETTLE_TRY_VOID(bind(s, {.loop = inner.at(inner.size() - 2), .thread_axis = "threadIdx.x"}));
  return s;
}

}  // namespace

ScheduleRule cross_thread_reduction(CrossThreadReductionOptions options) {
  return {"cross_thread_reduction",
          [options = std::move(options)](const TuneContext& context, const Schedule& s,
                                         const std::string& name) -> Result<std::vector<Schedule>> {
            constexpr int kParallelBelow = 64;  // a GPU has that many blocks to fill at least
            if (!context.target->has_threads() || is_tiled(s.func(), name) ||
                !has_more_reduction_parallel(s.func(), *find_block(s.func()->body, name), kParallelBelow) ||
                !is_unbound(s.func(), *find_block(s.func()->body, name)))
              return std::vector{s};
            std::vector<Schedule> next = {s};
            if (auto made = across_threads(s, name, options.thread_extents)) next.push_back(std::move(*made));
            return next;
          }};
}

}  // namespace fettle
