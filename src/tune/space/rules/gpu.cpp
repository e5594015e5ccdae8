// Rules of targets with threads: each gives a block to one of the parts (tune/parts/gpu_*.h).

#include "tune/parts/gpu_nest.h"
#include "tune/space/rule.h"

namespace fettle {

// Everything that no other rule takes.
extern constinit const Rule gpu_nest_def = {
    "gpu_nest", [](const RuleContext&, const BlockNode&) { return true; },
    [](RuleContext& ctx, BlockRef block) {
      return by_part(ctx, block, "gpu_nest", [&] { return gpu_nest(ctx.schedule, *ctx.target, *ctx.decider, block); });
    }};

}  // namespace fettle
