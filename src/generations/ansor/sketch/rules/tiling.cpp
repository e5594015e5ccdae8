// Rule 3: a node with data reuse is tiled on several levels (DeriveOptions::tiling). Rule 4: its fusible consumer joins
// each tile, one next state for each level of spatial tiles outside of the reduction ("SSRSRS": two).
//   (S, i) → (MultiLevelTiling(S, i), i - 1)      (S, i) → (FuseConsumer(MultiLevelTiling(S, i), i), i - 1)

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

bool has_reuse(const SketchState& state) {
  const BlockNode* block = state.block();
  return block && has_data_reuse(state.schedule.func(), *block);
}

// Tiles the working node, and turns to the one before.
Result<MultiLevelTiling::Levels> tile(SketchState& state) {
  state.schedule.set_address_prefix("multi_level_tiling/" + state.nodes[state.working - 1]);
  FETTLE_TRY(const BlockRef block, state.working_block());
  FETTLE_TRY(MultiLevelTiling::Levels levels, state.options->tiling.apply(state.schedule, block));
  --state.working;
  return levels;
}

Result<std::vector<SketchState>> tile_alone(const SketchState& state) {
  SketchState next = state;
  FETTLE_TRY_VOID(tile(next));
  return std::vector{std::move(next)};
}

Result<std::vector<SketchState>> tile_and_fuse(const SketchState& state) {
  SketchState tiled = state;
  const std::string consumer_name = fusible_consumer(tiled.schedule.func(), *tiled.block())->name;
  FETTLE_TRY(const MultiLevelTiling::Levels levels, tile(tiled));
  FETTLE_TRY(const BlockRef consumer, get_block(tiled.schedule, {.name = consumer_name}));
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

extern constinit const DerivationRule multi_level_tiling_rule{
    "multi_level_tiling", 3, [](const SketchState& state) { return has_reuse(state) && !state.has_cache_stage(); },
    tile_alone};

extern constinit const DerivationRule multi_level_tiling_with_fusion_rule{
    "multi_level_tiling_with_fusion", 4,
    [](const SketchState& state) {
      return has_reuse(state) && has_fusible_consumer(state.schedule.func(), *state.block());
    },
    tile_and_fuse};

}  // namespace fettle
