#include "generations/ansor/sketch/winograd.h"

#include "generations/ansor/sketch/scheduled.h"
#include "schedule/primitives.h"
#include "tune/parts/auto_inline.h"
#include "tune/parts/threads.h"
#include "tune/parts/winograd.h"

namespace fettle {
namespace {

// The height of a strip: a divisor of the rows of tiles, over which the outputs' first transform has a loop.
Result<IntRef> draw_strip(Schedule& s, const WinogradParts& parts) {
  constexpr size_t kFromTheEnd = 5;  // p q o a y
  FETTLE_TRY(const BlockRef columns, get_block(s, {.name = parts.columns}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {columns}));
  if (loops.size() < kFromTheEnd) return fail(ErrorCode::E230, parts.columns + " has other loops");
  s.set_address_prefix("winograd/" + parts.block);
  FETTLE_TRY(const std::vector<ValueRef> sizes,
             sample_perfect_tile(s, {.loop = loops[loops.size() - kFromTheEnd], .n = 2, .name = "strip"}));
  return IntRef(sizes[1]);
}

}  // namespace

Result<Schedule> by_winograd(const Schedule& start, const WinogradWay& way, int threads) {
  const auto convolution = start.target() ? winograd_convolution(start.func()) : std::nullopt;
  if (!convolution) return fail(ErrorCode::E230, "no convolution for Winograd, or no target", "by_winograd");
  Schedule s = start;
  const Target& target = *s.target();
  SamplingDecider decider;
  FETTLE_TRY(const WinogradParts parts, replace_by_winograd(s, *convolution, way.outputs));
  FETTLE_TRY_VOID(auto_inline(s, target, decider));
  std::optional<IntRef> height;
  if (way.strips) {
    FETTLE_TRY(height, draw_strip(s, parts));
  }
  FETTLE_TRY(const PlacedTransforms placed, place_transforms(s, target, parts, height));
  for (const std::string& name : {parts.weights, parts.rows, parts.tiles, parts.columns, placed.last}) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY_VOID(annotate(s, {.target = block, .key = kScheduled}));
  }
  if (!way.strips && !target.has_threads()) {
    FETTLE_TRY_VOID(parallelize(s, placed.inputs, {.threads = threads}));
    FETTLE_TRY_VOID(parallelize(s, placed.outputs, {.threads = threads}));
  }
  return s;
}

std::vector<WinogradWay> winograd_ways(const Schedule& s) {
  if (!s.target()) return {};
  for (const auto& step : s.trace().steps)
    if (!step->def->samples && !step->def->queries && step->def != &reformulate_def) return {};
  const auto convolution = winograd_convolution(s.func());
  const bool has_threads = s.target()->has_threads();
  if (!convolution || (!has_threads && s.target()->vector_lanes(4) == 1)) return {};
  if (Schedule trial = s; !replace_by_winograd(trial, *convolution, kWinogradOutputs[0]))
    return {};  // strides, dilation
  std::vector<WinogradWay> ways;
  for (const int64_t m : kWinogradOutputs)
    for (const bool strips : {false, true})
      if (!strips || !has_threads) ways.push_back({m, strips});
  return ways;
}

std::vector<Schedule> winograd_schedules(const Schedule& s, int threads) {
  std::vector<Schedule> all;
  for (const WinogradWay& way : winograd_ways(s))
    if (auto made = by_winograd(s, way, threads)) all.push_back(std::move(*made));
  return all;
}

}  // namespace fettle
