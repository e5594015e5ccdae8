// A product of single precision by a matrix unit for bf16 (parts/split_product.h): a decision, before anything else is
// done to the program; then one rule for all the blocks that stand for it.

#include "tune/space/rules/split_product.h"

#include "schedule/reformulation.h"
#include "tune/parts/split_product.h"

namespace fettle {
namespace {

bool applies(const RuleContext& ctx, const BlockNode& block) {
  const std::string_view product = part_of(block);
  const auto parts = product.empty() ? std::nullopt : split_parts(ctx.schedule.func(), product);
  return parts && !ctx.done.contains(parts->product);
}

Result<> apply(RuleContext& ctx, BlockRef block) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto parts = split_parts(s.func(), part_of(*node));
  if (!parts) return fail(ErrorCode::E230, std::string(node->name) + " is no part of a product");
  s.set_address_prefix("split_product/" + parts->block);
  FETTLE_TRY(const Finished finished, split_product_tiles(s, *ctx.target, *ctx.decider, *parts, ctx.threads));
  ctx.done.insert(finished.begin(), finished.end());
  return {};
}

}  // namespace

Result<> choose_split_product(RuleContext& ctx) {
  const auto product = splittable_product(ctx.schedule.func(), *ctx.target);
  if (!product) return {};
  std::vector<int64_t> terms = {0};
  std::vector<double> weights = {0.4};
  for (const int64_t n : kSplitTerms) {
    Schedule trial = ctx.schedule;
    if (!replace_by_split_product(trial, *product, n)) return {};
    if (error_bound_of(trial.func()) > ctx.max_error_bound) continue;
    terms.push_back(n);
    weights.push_back(0.3);
  }
  if (terms.size() == 1) return {};
  ctx.schedule.set_address_prefix("split_product/" + *product);
  FETTLE_TRY(const int64_t n, choose(ctx, "terms", terms, 0, weights));
  return n == 0 ? Result<>() : replace_by_split_product(ctx.schedule, *product, n).map([](const SplitParts&) {});
}

extern constinit const Rule split_product_rule_def = {"split_product", applies, apply};

}  // namespace fettle
