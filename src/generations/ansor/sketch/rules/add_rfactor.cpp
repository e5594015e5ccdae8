// Rule 6: where the reduction holds more parallelism than the output, a part of it becomes a dimension. Its loops are
// made one, cut in two, and factored along the inner part (the first next state) or the outer one.
//   (S, i) → (AddRfactor(S, i), i - 1)

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/sketch.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/rfactor.h"

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
  FETTLE_TRY(const std::vector<LoopRef> parts, cut_reduction(s, block, cut.options->tiling.max_innermost));
  --cut.working;
  std::vector<SketchState> next;
  for (const LoopRef& part : {parts[1], parts[0]}) {
    SketchState factored = cut;
    FETTLE_TRY_VOID(rfactor(factored.schedule, {.block = block, .loop = part, .factor_axis = -1}));
    next.push_back(std::move(factored));
  }
  return next;
}

}  // namespace

extern constinit const DerivationRule add_rfactor_rule{"add_rfactor", 6, applies, apply};

}  // namespace fettle
