#include "generations/ansor/sketch/filtered_convolution.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/primitives/sample_perfect_tile.h"
#include "tune/parts/threads.h"
#include "tune/space/algorithm.h"
#include "tune/space/auto_inline.h"
#include "tune/space/minimal_filtering.h"

namespace fettle {
namespace {

// The height of a strip: a divisor of the rows of tiles, over which the outputs' first transform has a loop.
Result<IntRef> draw_strip(Schedule& s, const MinimalFiltering& parts) {
  constexpr size_t kFromTheEnd = 5;  // p q o a y
  FETTLE_TRY(const BlockRef columns, get_block(s, {.name = parts.columns}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {columns}));
  if (loops.size() < kFromTheEnd) return fail(ErrorCode::E230, parts.columns + " has other loops");
  s.set_address_prefix("minimal_filtering/" + parts.block);
  FETTLE_TRY(const std::vector<ValueRef> sizes,
             sample_perfect_tile(s, {.loop = loops[loops.size() - kFromTheEnd], .n = 2, .name = "strip"}));
  return IntRef(sizes[1]);
}

}  // namespace

bool is_scheduled(const BlockNode& block) { return block.annotations.find(kScheduled) != nullptr; }

Result<Schedule> filtered_by(const Schedule& start, const FilteringWay& way, int threads) {
  const auto convolution = start.target() ? filterable_convolution(start.func()) : std::nullopt;
  if (!convolution) return fail(ErrorCode::E230, "no convolution to filter, or no target", "filtered_by");
  RuleContext ctx{.schedule = start, .target = std::make_shared<const Target>(*start.target()), .threads = threads};
  FETTLE_TRY(const MinimalFiltering parts, filtered(ctx.schedule, *convolution, way.outputs));
  ctx.filtering = parts;
  FETTLE_TRY_VOID(auto_inline(ctx));
  std::optional<IntRef> height;
  if (way.strips) {
    FETTLE_TRY(height, draw_strip(ctx.schedule, parts));
  }
  FETTLE_TRY(const PlacedTransforms placed, place_transforms(ctx, parts, height));
  Schedule& s = ctx.schedule;
  for (const std::string& name : {parts.weights, parts.rows, parts.tiles, parts.columns, placed.last}) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY_VOID(annotate(s, {.target = block, .key = kScheduled}));
  }
  if (!way.strips && !ctx.target->has_threads()) {
    FETTLE_TRY_VOID(parallelize(ctx.schedule, placed.inputs, {.threads = ctx.threads}));
    FETTLE_TRY_VOID(parallelize(ctx.schedule, placed.outputs, {.threads = ctx.threads}));
  }
  return std::move(ctx.schedule);
}

std::vector<FilteringWay> ways_to_filter(const Schedule& s) {
  if (!s.target()) return {};
  for (const auto& step : s.trace().steps)
    if (!step->def->samples && !step->def->queries && step->def != &reformulate_def) return {};
  const auto convolution = filterable_convolution(s.func());
  const bool has_threads = s.target()->has_threads();
  if (!convolution || (!has_threads && s.target()->vector_lanes(4) == 1)) return {};
  if (Schedule trial = s; !filtered(trial, *convolution, kFilterOutputs[0])) return {};  // strides, dilation
  std::vector<FilteringWay> ways;
  for (const int64_t m : kFilterOutputs)
    for (const bool strips : {false, true})
      if (!strips || !has_threads) ways.push_back({m, strips});
  return ways;
}

std::vector<Schedule> filtered_by_tiles(const Schedule& s, int threads) {
  std::vector<Schedule> all;
  for (const FilteringWay& way : ways_to_filter(s))
    if (auto made = filtered_by(s, way, threads)) all.push_back(std::move(*made));
  return all;
}

size_t first_own_loop(const Func& func, const BlockNode& block) {
  const auto loops = loops_around(func, &block);
  size_t first = loops.size();
  while (first > 0 && blocks_under(Stmt(Ref<const StmtNode>(loops[first - 1]))).size() == 1) --first;
  return first;
}

size_t first_loop_to_unroll(const Func& func, const BlockNode& block) {
  const auto loops = loops_around(func, &block);
  if (loops.empty()) return 0;
  const auto beside = blocks_under(Stmt(Ref<const StmtNode>(loops.front())));
  return std::ranges::any_of(beside, [](const BlockNode* b) { return is_scheduled(*b); }) ? first_own_loop(func, block)
                                                                                          : 0;
}

}  // namespace fettle
