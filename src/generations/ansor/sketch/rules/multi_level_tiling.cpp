// Rule 3: a node with data reuse is tiled on several levels (DeriveOptions::tiling).
//   (S, i) → (MultiLevelTiling(S, i), i - 1)

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"
#include "schedule/primitives/get_block.h"

namespace fettle {
namespace {

bool applies(const SketchState& state) {
  const BlockNode* block = state.block();
  return block && has_data_reuse(state.schedule.func(), *block) && !state.has_cache_stage();
}

Result<std::vector<SketchState>> apply(const SketchState& state) {
  SketchState next = state;
  const std::string& node = next.nodes[next.working - 1];
  next.schedule.set_address_prefix("multi_level_tiling/" + node);
  FETTLE_TRY(const BlockRef block, get_block(next.schedule, {.name = node}));
  FETTLE_TRY_VOID(next.options->tiling.apply(next.schedule, block));
  --next.working;
  return std::vector{std::move(next)};
}

}  // namespace

extern constinit const DerivationRule multi_level_tiling_rule{"multi_level_tiling", 3, applies, apply};

}  // namespace fettle
