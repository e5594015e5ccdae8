#include "tune/sketch/rules/add_rfactor.h"

#include "ir/visit.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/sample_perfect_tile.h"
#include "schedule/primitives/split.h"
#include "tune/sketch/conditions.h"

namespace fettle {
namespace {

bool applies(const SketchState& state) {
  const BlockNode* block = state.block();
  return block && has_more_reduction_parallel(state.schedule.func(), *block, state.options->cores);
}

Result<std::vector<SketchState>> apply(const SketchState& state) {
  SketchState cut = state;
  Schedule& s = cut.schedule;
  const std::string node = cut.nodes[cut.working - 1];
  s.set_address_prefix("add_rfactor/" + node);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = node}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  FETTLE_TRY(const Stmt stmt, s.block(block));
  std::vector<LoopRef> spatial, reduction;
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Var var, s.loop_var(loop));
    bool reduces = false;
    for (const IterVar& iter : stmt.as<BlockNode>()->iters)
      reduces |= iter.kind == IterKind::kReduce && uses_var(iter.binding, var.get());
    (reduces ? reduction : spatial).push_back(loop);
  }
  std::vector<LoopRef> order = spatial;
  order.insert(order.end(), reduction.begin(), reduction.end());
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  LoopRef whole = reduction.front();
  if (reduction.size() > 1) {
    FETTLE_TRY(whole, fuse(s, {.loops = reduction}));
  }
  FETTLE_TRY(const Var var, s.loop_var(whole));
  FETTLE_TRY(const std::vector<ValueRef> sizes,
             sample_perfect_tile(
                 s, {.loop = whole, .n = 2, .max_innermost = cut.options->tiling.max_innermost, .name = var->name}));
  FETTLE_TRY(const std::vector<LoopRef> parts, split(s, {.loop = whole, .factors = {sizes[0], sizes[1]}}));
  --cut.working;
  std::vector<SketchState> next;
  for (const LoopRef& part : {parts[1], parts[0]}) {
    SketchState factored = cut;
    FETTLE_TRY_VOID(rfactor(factored.schedule, {.block = block, .loop = part}));
    next.push_back(std::move(factored));
  }
  return next;
}

}  // namespace

constinit const DerivationRule add_rfactor_rule{"add_rfactor", 6, applies, apply};

}  // namespace fettle
