// Rule 1 leaves a node as it is, where it is not strictly inlinable, or an output that cannot go; rule 2 computes one
// that is strictly inlinable and no output where it is read.
//   (S, i) → (S, i - 1)      (S, i) → (Inline(S, i), i - 1)

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"
#include "schedule/primitives/compute_inline.h"

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

extern constinit const DerivationRule always_inline_rule{
    "always_inline", 2, can_be_inlined, [](const SketchState& state) -> Result<std::vector<SketchState>> {
      SketchState next = state;
      FETTLE_TRY(const BlockRef block, next.working_block());
      FETTLE_TRY_VOID(compute_inline(next.schedule, {.block = block}));
      next.nodes.erase(next.nodes.begin() + static_cast<std::ptrdiff_t>(next.working - 1));
      --next.working;
      return std::vector{std::move(next)};
    }};

}  // namespace fettle
