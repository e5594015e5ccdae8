#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/register_sums.h"
#include "generations/ansor/sketch/scheduled.h"
#include "generations/metaschedule/postprocessor.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// As many of the outermost loops as have no more iterations together than `most`, but at least one.
Result<> make_parallel(Schedule& s, std::vector<LoopRef> outer, int64_t most) {
  while (outer.size() > 1) {
    FETTLE_TRY(const int64_t extent, extent_of_loops(s, outer));
    if (extent > 0 && extent <= most) break;
    const LoopRef last = outer.back();
    outer.pop_back();
    FETTLE_TRY(const int64_t left, extent_of_loops(s, outer));
    if (left == 1) {  // one loop that is too long rather than none
      outer.push_back(last);
      break;
    }
  }
  if (outer.empty()) return {};
  Schedule changed = s;
  FETTLE_TRY(const LoopRef loop, fused_loop(changed, outer));
  if (parallel(changed, {.loop = loop})) s = std::move(changed);
  return {};
}

// The innermost loop; of one that is too long a part.
Result<> make_lanes(Schedule& s, LoopRef loop, int64_t most, int64_t register_lanes) {
  FETTLE_TRY(const int64_t extent, extent_of_loops(s, {loop}));
  if (extent <= 1) return {};
  Schedule changed = s;
  if (extent > most) {
    // Whole registers, of which the last may be masked.
    int64_t lanes = most;
    while (lanes > register_lanes && (extent % lanes != 0 || lanes % register_lanes != 0)) --lanes;
    if (extent % lanes != 0) lanes = most;
    const Tail tail = extent % lanes == 0 ? Tail::kExact : Tail::kMask;
    FETTLE_TRY(const auto parts, split(changed, {.loop = loop, .factors = {kInfer, lanes}, .tail = tail}));
    loop = parts[1];
  }
  if (vectorize_in_registers(changed, loop, register_lanes)) s = std::move(changed);
  return {};
}

}  // namespace

Postprocessor rewrite_parallel_vectorize_unroll() {
  return {"rewrite_parallel_vectorize_unroll", [](const TuneContext&, Schedule& s) -> Result<> {
            const Annotations annotations = s.func().root().annotations;
            if (!annotations.find(keys::kVectorize)) return {};
            const int64_t most_parallel = annotations.get_int(keys::kParallel, 0);
            const int64_t most_lanes = annotations.get_int(keys::kVectorize, 0);
            const int64_t unroll = annotations.get_int(keys::kUnroll, 0);
            FETTLE_TRY(const BlockRef root, get_block(s, {.name = s.func().root().name}));
            for (const char* key : {keys::kParallel, keys::kVectorize, keys::kUnroll})
              if (annotations.find(key)) FETTLE_TRY_VOID(unannotate(s, {.target = root, .key = key}));
            for (const std::string& name : nest_blocks(s.func())) {
              if (is_scheduled(*find_block(s.func()->body, name))) continue;
              FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
              FETTLE_TRY(const auto inner, inner_spatial_loops(s, block));
              if (most_lanes > 1) {
                FETTLE_TRY(const int64_t register_lanes, lanes_of(s, block));
                if (!inner.empty()) {
                  FETTLE_TRY_VOID(make_lanes(s, inner.back(), most_lanes, register_lanes));
                } else if (wants_lanes_inside(s.func(), *find_block(s.func()->body, name))) {
                  Schedule changed = s;
                  const auto loop = bring_lanes_inside(changed, block, most_lanes);
                  if (loop && vectorize_in_registers(changed, *loop, register_lanes)) s = std::move(changed);
                }
                FETTLE_TRY_VOID(vectorize_companions(s, block));
              }
              FETTLE_TRY(const auto outer, outer_spatial_loops(s, block));
              if (most_parallel > 1) FETTLE_TRY_VOID(make_parallel(s, outer, most_parallel));
              if (unroll == 0) continue;
              FETTLE_TRY(const auto loops, get_loops(s, {block}));
              if (loops.empty()) continue;
              const size_t first = first_loop_to_unroll(s.func(), *find_block(s.func()->body, name));
              if (first < loops.size())
                FETTLE_TRY_VOID(pragma(s, {.loop = loops[first], .name = "auto_unroll_max_step", .value = unroll}));
            }
            return {};
          }};
}

}  // namespace fettle
