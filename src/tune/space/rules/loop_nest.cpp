// Everything that no other rule takes, as plain loops (parts/nest.h).

#include "tune/parts/nest.h"
#include "tune/space/rule.h"

namespace fettle {
namespace {

bool applies(const RuleContext&, const BlockNode&) { return true; }

Result<> apply(RuleContext& ctx, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  ctx.schedule.set_address_prefix("loop_nest/" + node->name);
  FETTLE_TRY(const Nest made, loop_nest(ctx.schedule, *ctx.target, *ctx.decider, block, {.threads = ctx.threads}));
  ctx.done.insert(made.finished.begin(), made.finished.end());
  return {};
}

}  // namespace

extern constinit const Rule loop_nest_def = {"loop_nest", applies, apply};

}  // namespace fettle
