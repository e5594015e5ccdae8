// Rule 2: a strictly inlinable node that is no output is computed where it is read.
//   (S, i) → (Inline(S, i), i - 1)

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/get_block.h"

namespace fettle {
namespace {

bool applies(const SketchState& state) {
  const BlockNode* block = state.block();
  return block && is_always_inlined(state.schedule.func(), *block, state.options->target.get());
}

Result<std::vector<SketchState>> apply(const SketchState& state) {
  SketchState next = state;
  FETTLE_TRY(const BlockRef block, get_block(next.schedule, {.name = next.nodes[next.working - 1]}));
  FETTLE_TRY_VOID(compute_inline(next.schedule, {.block = block}));
  next.nodes.erase(next.nodes.begin() + static_cast<std::ptrdiff_t>(next.working - 1));
  --next.working;
  return std::vector{std::move(next)};
}

}  // namespace

extern constinit const DerivationRule always_inline_rule{"always_inline", 2, applies, apply};

}  // namespace fettle
