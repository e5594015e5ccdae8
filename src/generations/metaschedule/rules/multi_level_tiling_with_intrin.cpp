#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/metaschedule/rules/tile_block.h"
#include "ir/visit.h"
#include "schedule/primitives.h"
#include "target/tensor_intrinsic.h"
#include "tune/parts/loops.h"

namespace fettle {
namespace {

// The loops of the block that play the parts of the intrinsic's: the last of each kind, cut to its extents and
// innermost.
Result<BlockRef> tile_of_intrinsic(Schedule& s, const std::string& name, const TensorIntrinsicDef& intrinsic) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const LoopsByKind loops, loops_by_kind(s, block));
  const auto& [spatial, reduction] = loops;
  const Func meaning = meaning_of(intrinsic);
  const TileNest nest = tile_nest(meaning.root().body);
  const auto reduces = [&](const ForNode* loop) {
    return std::ranges::any_of(nest.block->iters, [&](const IterVar& iter) {
      return iter.kind == IterKind::kReduce && uses_var(iter.binding, loop->var.get());
    });
  };
  std::vector<LoopRef> outer, inner;
  size_t n_spatial = 0, n_reduce = 0;
  for (const ForNode* loop : nest.loops) ++(reduces(loop) ? n_reduce : n_spatial);
  if (n_spatial > spatial.size() || n_reduce > reduction.size())
    return fail(ErrorCode::E230, "too few loops", "multi_level_tiling_with_intrin");
  size_t next_spatial = spatial.size() - n_spatial, next_reduce = reduction.size() - n_reduce;
  std::vector<LoopRef> outer_reduce(reduction.begin(), reduction.begin() + static_cast<std::ptrdiff_t>(next_reduce));
  outer.assign(spatial.begin(), spatial.begin() + static_cast<std::ptrdiff_t>(next_spatial));
  for (const ForNode* loop : nest.loops) {
    const LoopRef own = reduces(loop) ? reduction[next_reduce++] : spatial[next_spatial++];
    FETTLE_TRY(const auto parts, split(s, {.loop = own, .factors = {kInfer, *as_int(loop->extent)}}));
    (reduces(loop) ? outer_reduce : outer).push_back(parts[0]);
    inner.push_back(parts[1]);
  }
  std::vector<LoopRef> order = outer;
  order.insert(order.end(), outer_reduce.begin(), outer_reduce.end());
  order.insert(order.end(), inner.begin(), inner.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  // Whether it fits is tried: what clears the tile is taken away first.
  Schedule trial = s;
  if (outer_reduce.empty()) return fail(ErrorCode::E230, "no loop of the reduction", "multi_level_tiling_with_intrin");
  FETTLE_TRY_VOID(decompose_reduction(trial, {.block = block, .loop = outer_reduce.front()}));
  FETTLE_TRY_VOID(tensorize(trial, {.target = inner.front(), .intrinsic = std::string(intrinsic.name)}));
  return blockize(s, {.loop = inner.front()});
}

}  // namespace

ScheduleRule multi_level_tiling_with_intrin(std::string intrinsic, MultiLevelTilingOptions options) {
  return {"multi_level_tiling_with_intrin",
          [intrinsic = std::move(intrinsic), options = written_at_once(std::move(options))](
              const TuneContext& context, const Schedule& s, const std::string& name) -> Result<std::vector<Schedule>> {
            const TensorIntrinsicDef* def = find_tensor_intrinsic(intrinsic);
            if (!def || !def->available(*context.target) || is_tiled(s.func(), name) ||
                !has_data_reuse(s.func(), *find_block(s.func()->body, name)))
              return std::vector{s};
            Schedule tile = s;
            const auto outer = tile_of_intrinsic(tile, name, *def);
            if (!outer) return std::vector{s};  // another extent, statement or type
            FETTLE_TRY_VOID(annotate(tile, {.target = *outer, .key = keys::kTensorize, .value = intrinsic}));
            FETTLE_TRY(const Stmt block, tile.block(*outer));
            return tile_block(tile, "multi_level_tiling_with_intrin/" + name, block.as<BlockNode>()->name, options);
          }};
}

}  // namespace fettle
