// Rule 1: leaves the node as it is, where it is not strictly inlinable, or an output that cannot go.
//   (S, i) → (S, i - 1)

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"

namespace fettle {
namespace {

bool can_be_inlined(const SketchState& state) {
  const BlockNode* block = state.block();
  return block && is_always_inlined(state.schedule.func(), *block, state.options->target.get());
}

}  // namespace

extern constinit const DerivationRule skip_rule{
    "skip", 1, [](const SketchState& state) { return !can_be_inlined(state) && !state.has_cache_stage(); },
    [](const SketchState& state) -> Result<std::vector<SketchState>> {
      SketchState next = state;
      --next.working;
      return std::vector{std::move(next)};
    }};

}  // namespace fettle
