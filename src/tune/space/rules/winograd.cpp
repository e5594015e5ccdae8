// The convolution of a program by Winograd (parts/winograd.h): a decision, the first of a point, before anything else
// is done to the program; then one rule for all the blocks that stand for it.

#include <optional>

#include "schedule/primitives/get_block.h"
#include "schedule/reformulation.h"
#include "tune/parts/threads.h"
#include "tune/parts/winograd.h"
#include "tune/space/rules/register_tiling.h"
#include "tune/space/rules/winograd.h"

namespace fettle {
namespace {

bool applies(const RuleContext& ctx, const BlockNode& block) {
  const std::string_view convolution = part_of(block);
  return !convolution.empty() && winograd_parts(ctx.schedule.func(), convolution);
}

Result<> apply(RuleContext& ctx, BlockRef block) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto parts = winograd_parts(s.func(), part_of(*node));
  if (!parts) return fail(ErrorCode::E230, std::string(node->name) + " is no part of a convolution");
  std::vector<int64_t> heights = winograd_strips(s.func(), *parts);
  heights.insert(heights.begin(), 0);  // no strips
  s.set_address_prefix("winograd/" + parts->block);
  FETTLE_TRY(const int64_t height, choose(ctx, "strip", heights));
  const auto strip = height > 0 ? std::optional<IntRef>(height) : std::nullopt;
  FETTLE_TRY(const PlacedTransforms placed, place_transforms(s, *ctx.target, *parts, strip));
  FETTLE_TRY(const BlockRef product, get_block(s, {.name = parts->product}));
  FETTLE_TRY_VOID(tile_in_registers(ctx, product, placed.around.size()));
  if (strip) {
    FETTLE_TRY_VOID(parallelize(s, placed.around, {.threads = ctx.threads}));
  } else {
    FETTLE_TRY_VOID(parallelize(s, placed.inputs, {.threads = ctx.threads}));
    FETTLE_TRY_VOID(parallelize(s, placed.outputs, {.threads = ctx.threads}));
  }
  for (const std::string& name : {parts->weights, parts->rows, parts->tiles, parts->columns, placed.last})
    ctx.done.insert(name);
  return {};
}

}  // namespace

Result<> choose_winograd(RuleContext& ctx) {
  if (ctx.lanes(kF32) == 1) return {};
  const auto convolution = winograd_convolution(ctx.schedule.func());
  if (!convolution) return {};
  std::vector<int64_t> outputs = {0};
  std::vector<double> weights = {0.5};
  for (const int64_t m : kWinogradOutputs) {
    Schedule trial = ctx.schedule;
    if (!replace_by_winograd(trial, *convolution, m)) return {};  // strides, dilation
    if (error_bound_of(trial.func()) > ctx.max_error_bound) continue;
    outputs.push_back(m);
    weights.push_back(m == 2 ? 0.2 : 0.3);
  }
  if (outputs.size() == 1) return {};
  ctx.schedule.set_address_prefix("winograd/" + *convolution);
  FETTLE_TRY(const int64_t m, choose(ctx, "outputs", outputs, 0, weights));
  return m == 0 ? Result<>() : replace_by_winograd(ctx.schedule, *convolution, m).map([](const WinogradParts&) {});
}

std::vector<PreferringDecider::Instead> winograd_points(const Func& workload) {
  std::vector<PreferringDecider::Instead> points;
  const auto convolution = winograd_convolution(workload);
  for (const int64_t m : kWinogradOutputs) {
    Schedule trial(workload);
    const auto parts =
        convolution ? replace_by_winograd(trial, *convolution, m) : fail(ErrorCode::E230, "no convolution");
    if (!parts) return {};  // strides, dilation
    points.push_back({.values = {{"outputs", m}}});
    // Strips of few rows of tiles, whose parts stay in the caches.
    for (const int64_t height : winograd_strips(trial.func(), *parts))
      if (height <= 2) points.push_back({.values = {{"outputs", m}, {"strip", height}}});
  }
  return points;
}

extern constinit const Rule winograd_rule_def = {"winograd", applies, apply};

}  // namespace fettle
