// Rule 4: a node with data reuse and a fusible consumer is tiled, and the consumer joins each tile. One next state for
// each level of spatial tiles outside of the reduction ("SSRSRS": two).
//   (S, i) → (FuseConsumer(MultiLevelTiling(S, i), i), i - 1)

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/reverse_compute_at.h"

namespace fettle {
namespace {

bool applies(const SketchState& state) {
  const BlockNode* block = state.block();
  const Func& func = state.schedule.func();
  return block && has_data_reuse(func, *block) && has_fusible_consumer(func, *block);
}

Result<std::vector<SketchState>> apply(const SketchState& state) {
  SketchState tiled = state;
  const std::string& node = tiled.nodes[tiled.working - 1];
  const std::string consumer_name = fusible_consumer(tiled.schedule.func(), *tiled.block())->name;
  tiled.schedule.set_address_prefix("multi_level_tiling/" + node);
  FETTLE_TRY(const BlockRef block, get_block(tiled.schedule, {.name = node}));
  FETTLE_TRY(const MultiLevelTiling::Levels levels, tiled.options->tiling.apply(tiled.schedule, block));
  FETTLE_TRY(const BlockRef consumer, get_block(tiled.schedule, {.name = consumer_name}));
  --tiled.working;
  std::vector<SketchState> next;
  const std::string& structure = tiled.options->tiling.structure;
  for (size_t level = 0; level < levels.size() && structure[level] == 'S' && level + 1 < levels.size(); ++level) {
    if (levels[level].empty()) break;
    SketchState fused = tiled;
    FETTLE_TRY_VOID(reverse_compute_at(fused.schedule, {.block = consumer, .loop = levels[level].back()}));
    next.push_back(std::move(fused));
  }
  return next;
}

}  // namespace

extern constinit const DerivationRule multi_level_tiling_with_fusion_rule{"multi_level_tiling_with_fusion", 4, applies,
                                                                          apply};

}  // namespace fettle
