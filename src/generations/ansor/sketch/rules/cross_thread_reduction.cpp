// Rule 8, where tiles are bound to threads: the terms of a node with more parallelism in its reduction are shared
// among the threads of a block.
//   (S, i) → (CrossThreadReduction(S, i), i - 1)

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"
#include "generations/ansor/sketch/thread_binding.h"
#include "schedule/primitives/get_block.h"

namespace fettle {
namespace {

/// Sizes of a warp and its multiples.
const std::vector<int64_t>& thread_extents() {
  static const std::vector<int64_t> extents = {16, 32, 64, 128, 256};
  return extents;
}

bool applies(const SketchState& state) {
  if (state.options->tiling.tile_binds.empty() || !state.block()) return false;
  return has_more_reduction_parallel(state.schedule.func(), *state.block(), state.options->cores) &&
         is_unbound(state.schedule.func(), *state.block());
}

Result<std::vector<SketchState>> apply(const SketchState& state) {
  SketchState next = state;
  const std::string& node = next.nodes[next.working - 1];
  next.schedule.set_address_prefix("cross_thread_reduction/" + node);
  FETTLE_TRY(const BlockRef block, get_block(next.schedule, {.name = node}));
  FETTLE_TRY_VOID(reduce_across_threads(next.schedule, block, thread_extents()));
  --next.working;
  return std::vector{std::move(next)};
}

}  // namespace

extern constinit const DerivationRule cross_thread_reduction_rule{"cross_thread_reduction", 8, applies, apply};

}  // namespace fettle
