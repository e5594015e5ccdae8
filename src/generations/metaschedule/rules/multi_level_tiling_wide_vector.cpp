#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/metaschedule/rules/tile_block.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

//   for i: for j: for k: C   →   for i: for j_0: for k: block C_o: for j_1 in LANES vectorized: C
Result<BlockRef> vector_tile(Schedule& s, const std::string& name, int64_t lanes) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  const Stmt held = *s.block(block);
  const auto& node = *held.as<BlockNode>();
  size_t last = loops.size();
  for (size_t i = 0; i < loops.size(); ++i) {
    FETTLE_TRY(const Var var, s.loop_var(loops[i]));
    for (const IterVar& iter : node.iters)
      if (iter.kind == IterKind::kSpatial && uses_var(iter.binding, var.get())) last = i;
  }
  if (last == loops.size()) return fail(ErrorCode::E235, "nothing is spatial", "multi_level_tiling_wide_vector");
  FETTLE_TRY(const auto parts, split(s, {.loop = loops[last], .factors = {kInfer, lanes}}));
  std::vector<LoopRef> order = loops;
  order[last] = parts[0];
  order.push_back(parts[1]);
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY(const BlockRef outer, blockize(s, {.loop = parts[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts[1]}));
  return outer;
}

}  // namespace

ScheduleRule multi_level_tiling_wide_vector(int vector_bits, MultiLevelTilingOptions options) {
  return {"multi_level_tiling_wide_vector",
          [vector_bits, options = std::move(options)](const TuneContext&, const Schedule& s,
                                                      const std::string& name) -> Result<std::vector<Schedule>> {
            const BlockNode& node = *find_block(s.func()->body, name);
            if (!has_data_reuse(s.func(), node) || is_tiled(s.func(), name) || node.writes.size() != 1)
              return std::vector{s};
            const int64_t lanes = std::max(1, vector_bits / 8 / node.writes[0].buffer->dtype.element_bytes());
            const std::string rule = "multi_level_tiling_wide_vector/" + name;
            Schedule tile = s;
            const auto outer = vector_tile(tile, name, lanes);
            // An extent that is no multiple of the vector is tiled as any other.
            if (!outer) return tile_block(s, rule, name, options);
            FETTLE_TRY(const Stmt block, tile.block(*outer));
            return tile_block(tile, rule, block.as<BlockNode>()->name, written_at_once(options));
          }};
}

}  // namespace fettle
