// Products that a tensor intrinsic computes: tune/parts/tensor_tile.h.

#include "tune/parts/tensor_product.h"
#include "tune/parts/tensor_tile.h"
#include "tune/space/rule.h"

namespace fettle {
namespace {

bool applies(const RuleContext& ctx, const BlockNode& block) {
  if (!block.init) return false;
  const auto structure = block_structure(ctx.schedule.func(), block);
  return structure && tensor_product(block, *structure, *ctx.target);
}

Result<> apply(RuleContext& ctx, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  ctx.schedule.set_address_prefix("multi_level_tiling_with_intrin/" + node->name);
  FETTLE_TRY(const TensorTile made, tensor_tile(ctx.schedule, *ctx.target, *ctx.decider, block, ctx.threads));
  ctx.done.insert(made.finished.begin(), made.finished.end());
  return {};
}

}  // namespace

extern constinit const Rule multi_level_tiling_with_intrin_def = {"multi_level_tiling_with_intrin", applies, apply};

}  // namespace fettle
