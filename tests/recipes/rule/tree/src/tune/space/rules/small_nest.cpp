// Few elements: a serial nest, of which the innermost loop may be unrolled.

#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/unroll.h"
#include "tune/space/rule.h"

namespace fettle {
namespace {

constexpr int64_t kFew = 8;

bool applies(const RuleContext& ctx, const BlockNode& block) {
  const auto structure = block_structure(ctx.schedule.func(), block);
  return structure && !block.init && structure->points() <= kFew;
}

Result<> apply(RuleContext& ctx, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx.schedule, block));
  const std::string name = node->name;
  ctx.schedule.set_address_prefix("small_nest/" + name);
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(ctx.schedule, {.block = block}));
  FETTLE_TRY(const int64_t unrolled, choose(ctx, "unrolled", {0, 1}));
  if (unrolled && !loops.empty()) FETTLE_TRY_VOID(unroll(ctx.schedule, {.loop = loops.back()}));
  ctx.done.insert(name);
  return {};
}

}  // namespace

extern constinit const Rule small_nest_def = {"small_nest", applies, apply};

}  // namespace fettle
