// Rules that give a block to one of the parts (tune/parts/).

#include "tune/parts/nest.h"
#include "tune/parts/register_tile.h"
#include "tune/parts/tensor_product.h"
#include "tune/parts/tensor_tile.h"
#include "tune/space/rule.h"
#include "tune/space/rules/register_tiling.h"

namespace fettle {
extern constinit const Rule multi_level_tiling_with_intrin_def = {
    "multi_level_tiling_with_intrin",
    [](const RuleContext& ctx, const BlockNode& block) {
      const auto structure = block.init ? block_structure(ctx.schedule.func(), block, Extents::kOpen) : std::nullopt;
      return structure && tensor_product(block, *structure, *ctx.target);
    },
    [](RuleContext& ctx, BlockRef block) {
      return by_part(ctx, block, "multi_level_tiling_with_intrin",
                     [&] { return tensor_tile(ctx.schedule, *ctx.target, *ctx.decider, block, ctx.threads); });
    }};

extern constinit const Rule register_tiling_def = {
    "register_tiling",
    [](const RuleContext& ctx, const BlockNode& block) { return fits_register_tile(ctx.schedule.func(), block); },
    [](RuleContext& ctx, BlockRef block) { return tile_in_registers(ctx, block, 0); }};

Result<> tile_in_registers(RuleContext& ctx, BlockRef block, size_t shared) {
  return by_part(ctx, block, "register_tiling", [&] {
    return register_tile(ctx.schedule, *ctx.target, *ctx.decider, block, {.threads = ctx.threads, .shared = shared});
  });
}

// Everything that no other rule takes.
extern constinit const Rule loop_nest_def = {"loop_nest", [](const RuleContext&, const BlockNode&) { return true; },
                                             [](RuleContext& ctx, BlockRef block) {
                                               return by_part(ctx, block, "loop_nest", [&] {
                                                 return loop_nest(ctx.schedule, *ctx.target, *ctx.decider, block,
                                                                  {.threads = ctx.threads});
                                               });
                                             }};

}  // namespace fettle
