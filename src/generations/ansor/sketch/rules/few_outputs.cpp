// Where the reduction holds more parallelism than the output.
//   rule 6: a part of it becomes a dimension. Its loops are made one, cut in two, and factored along the inner part
//           (the first next state) or the outer one.  (S, i) → (AddRfactor(S, i), i - 1)
//   rule 8, where tiles are bound to threads: its terms are shared among the threads of a block.
//           (S, i) → (CrossThreadReduction(S, i), i - 1)

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/sketch.h"
#include "generations/ansor/sketch/thread_binding.h"
#include "schedule/primitives/rfactor.h"

namespace fettle {
namespace {

bool has_few_outputs(const SketchState& state) {
  const BlockNode* block = state.block();
  return block && has_more_reduction_parallel(state.schedule.func(), *block, state.options->cores);
}

Result<std::vector<SketchState>> add_rfactor(const SketchState& state) {
  SketchState cut = state;
  cut.schedule.set_address_prefix("add_rfactor/" + cut.nodes[cut.working - 1]);
  FETTLE_TRY(const BlockRef block, cut.working_block());
  FETTLE_TRY(const std::vector<LoopRef> parts, cut_reduction(cut.schedule, block, cut.options->tiling.max_innermost));
  --cut.working;
  std::vector<SketchState> next;
  for (const LoopRef& part : {parts[1], parts[0]}) {
    SketchState factored = cut;
    FETTLE_TRY_VOID(rfactor(factored.schedule, {.block = block, .loop = part, .factor_axis = -1}));
    next.push_back(std::move(factored));
  }
  return next;
}

Result<std::vector<SketchState>> share_terms(const SketchState& state) {
  SketchState next = state;
  next.schedule.set_address_prefix("cross_thread_reduction/" + next.nodes[next.working - 1]);
  FETTLE_TRY(const BlockRef block, next.working_block());
  // Sizes of a warp and its multiples.
  FETTLE_TRY_VOID(reduce_across_threads(next.schedule, block, {16, 32, 64, 128, 256}));
  --next.working;
  return std::vector{std::move(next)};
}

}  // namespace

extern constinit const DerivationRule add_rfactor_rule{"add_rfactor", 6, has_few_outputs, add_rfactor};

extern constinit const DerivationRule cross_thread_reduction_rule{
    "cross_thread_reduction", 8,
    [](const SketchState& state) {
      return !state.options->tiling.tile_binds.empty() && has_few_outputs(state) &&
             is_unbound(state.schedule.func(), *state.block());
    },
    share_terms};

}  // namespace fettle
