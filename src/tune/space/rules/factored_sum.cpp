// A product with weights of few bits (parts/factored_sum.h): a decision, before anything else is done to the program;
// then one rule for the sum and its product.

#include "tune/space/rules/factored_sum.h"

#include "schedule/reformulation.h"
#include "tune/parts/factored_sum.h"
#include "tune/parts/materialized_factors.h"

namespace fettle {
namespace {

// The sum that the block is part of, or is.
std::optional<SumParts> parts_with(const Func& func, const BlockNode& block) {
  if (role_of(block) == kDataRole) return {};  // a sum like any other
  return part_of(block).empty() ? std::nullopt : factored_parts(func, part_of(block));
}

bool applies(const RuleContext& ctx, const BlockNode& block) {
  const auto parts = parts_with(ctx.schedule.func(), block);
  return parts && !ctx.done.contains(parts->product);
}

Result<> apply(RuleContext& ctx, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx.schedule, block));
  const auto parts = parts_with(ctx.schedule.func(), *node);
  if (!parts) return fail(ErrorCode::E230, std::string(node->name) + " is no part of a factored sum");
  ctx.schedule.set_address_prefix("factored_sum/" + parts->block);
  FETTLE_TRY(const Finished finished, factored_sum_tiles(ctx.schedule, *ctx.target, *ctx.decider, *parts, ctx.threads));
  ctx.done.insert(finished.begin(), finished.end());
  return {};
}

}  // namespace

Result<> choose_factored_sum(RuleContext& ctx) {
  const auto sum = factorable_sum(ctx.schedule.func());
  if (!sum) return {};
  ctx.schedule.set_address_prefix("factored_sum/" + *sum);
  const auto narrow = narrow_product(ctx.schedule.func(), *ctx.target);
  const bool unpacks_once = narrow && narrow->fills_panels();
  const auto weights = unpacks_once ? std::vector{0.5, 0.5} : std::vector{0.9, 0.1};
  FETTLE_TRY(const int64_t factored, choose(ctx, "factored", {1, 0}, unpacks_once ? 1 : 0, weights));
  return factored == 0 ? Result<>() : replace_by_factored_sum(ctx.schedule, *sum).map([](const SumParts&) {});
}

extern constinit const Rule factored_sum_rule_def = {"factored_sum", applies, apply};

}  // namespace fettle
