#include "tune/space/rules/register_tiling.h"

#include "tune/parts/register_tile.h"
#include "tune/space/rule.h"

namespace fettle {
namespace {

bool applies(const RuleContext& ctx, const BlockNode& block) { return fits_register_tile(ctx.schedule.func(), block); }

Result<> apply(RuleContext& ctx, BlockRef block) { return tile_in_registers(ctx, block, 0); }

}  // namespace

Result<> tile_in_registers(RuleContext& ctx, BlockRef block, size_t shared) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  ctx.schedule.set_address_prefix("register_tiling/" + node->name);
  FETTLE_TRY(const RegisterTile made, register_tile(ctx.schedule, *ctx.target, *ctx.decider, block,
                                                    {.threads = ctx.threads, .shared = shared}));
  ctx.done.insert(made.finished.begin(), made.finished.end());
  return {};
}

extern constinit const Rule register_tiling_def = {"register_tiling", applies, apply};

}  // namespace fettle
