#include "tune/space/rule.h"

#include "schedule/primitives/get_loops.h"

namespace fettle {

Result<int64_t> choose(RuleContext& ctx, const std::string& name, const std::vector<int64_t>& candidates,
                       size_t preferred, std::vector<double> weights) {
  return ctx.decider->pick(ctx.schedule, {name, candidates, preferred, std::move(weights)});
}

Result<std::vector<LoopRef>> loops_of_block(RuleContext& ctx, BlockRef block) {
  return get_loops(ctx.schedule, {.block = block});
}

Result<const BlockNode*> block_node(const RuleContext& ctx, BlockRef block) { return block_node(ctx.schedule, block); }

Result<int64_t> loop_extent(const RuleContext& ctx, LoopRef loop) { return loop_extent(ctx.schedule, loop); }

}  // namespace fettle
