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

Result<const BlockNode*> block_node(const RuleContext& ctx, BlockRef block) {
  FETTLE_TRY(const Stmt stmt, ctx.schedule.block(block));
  return stmt.as<BlockNode>();  // owned by the schedule's program
}

Result<int64_t> loop_extent(const RuleContext& ctx, LoopRef loop) {
  FETTLE_TRY(const Stmt stmt, ctx.schedule.loop(loop));
  const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
  return extent ? *extent : int64_t{0};
}

}  // namespace fettle
