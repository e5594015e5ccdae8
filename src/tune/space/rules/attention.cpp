#include "tune/space/rules/attention.h"

#include <array>

#include "analysis/verify.h"
#include "schedule/reformulation.h"
#include "tune/parts/attention.h"
#include "tune/parts/gpu_attention.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/preferences.h"

namespace fettle {
namespace {

// The schedule with one pass, its choices made by `decider`. Nothing where it errs by more than is allowed, or is
// refused.
std::optional<std::pair<Schedule, Finished>> in_one_pass(const RuleContext& ctx, const AttentionParts& parts,
                                                         Decider& decider) {
  Schedule trial = ctx.schedule;
  const auto blocks = attention_in_one_pass(trial, *ctx.target, decider, parts, ctx.threads);
  if (!blocks || error_bound_of(trial.func()) > ctx.max_error_bound) return {};
  if (!verify(trial.func(), *ctx.target, {.races = false})) return {};
  return std::pair(std::move(trial), *blocks);
}

}  // namespace

Result<> choose_attention(RuleContext& ctx) {
  if (ctx.lanes(kF32) == 1) return {};
  const auto parts = attention_parts(ctx.schedule.func());
  if (!parts || !parts->finish.empty()) return {};
  PreferringDecider preferring;
  ctx.schedule.set_address_prefix("attention/" + parts->product);
  if (!in_one_pass(ctx, *parts, preferring)) return {};
  const size_t preferred = parts->keys >= preferences::kOnePassKeys ? 0 : 1;
  FETTLE_TRY(const int64_t one_pass, choose(ctx, "one_pass", {1, 0}, preferred));
  if (one_pass == 0) return {};
  for (Decider* decider : std::array<Decider*, 2>{ctx.decider, &preferring}) {
    auto made = in_one_pass(ctx, *parts, *decider);
    if (!made) continue;
    ctx.schedule = std::move(made->first);
    ctx.done.insert(made->second.begin(), made->second.end());
    return {};
  }
  return fail(ErrorCode::E230, "no tile of " + parts->product + " is legal");
}

Result<> choose_tensor_attention(RuleContext& ctx) {
  const auto parts = attention_parts(ctx.schedule.func());
  if (!parts || !tensor_attention_type(ctx.schedule.func(), *parts, *ctx.target)) return {};
  Schedule trial = ctx.schedule;
  const auto blocks = gpu_attention(trial, *ctx.target, *parts);
  if (!blocks || error_bound_of(trial.func()) > ctx.max_error_bound) return {};
  if (!check_on_device(trial.func(), *ctx.target)) return {};
  ctx.schedule = std::move(trial);
  ctx.done.insert(blocks->begin(), blocks->end());
  return {};
}

}  // namespace fettle
