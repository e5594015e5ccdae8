#include "tune/parts/transposing.h"

#include <algorithm>
#include <array>

#include "lower/passes/passes.h"
#include "schedule/primitives.h"
#include "target/caches.h"

namespace fettle {

std::optional<TransposedTile> transposed_tile(const BlockStructure& block, int64_t lanes) {
  const DType dtype = block.store.buffer->dtype;
  const int64_t narrowest = std::max<int64_t>(kFewestTransposed, kTransposedBytes / dtype.element_bytes());
  lanes = std::min(lanes, kMostTransposed);
  if (dtype.is_bool() || lanes < narrowest) return {};
  for (size_t lane = 0; lane < block.n_iters(); ++lane) {
    if (block.reduce[lane] || block.store.strides[lane] != 1 || block.extents[lane] < kFewestTransposed) continue;
    int64_t width = lanes;
    while (!block.open[lane] && width / 2 >= std::max(narrowest, block.extents[lane])) width /= 2;
    for (const AccessPattern& load : block.loads) {
      const int64_t stride = load.strides[lane];
      if (stride == 0 || stride == 1 || stride == AccessPattern::kIrregular) continue;
      if (load.buffer->dtype.element_bytes() != dtype.element_bytes() || load.buffer->dtype.is_bool()) continue;
      for (size_t i = 0; i < block.n_iters(); ++i)
        if (!block.reduce[i] && load.strides[i] == 1 && block.extents[i] >= kFewestTransposed)
          return TransposedTile{lane, i, width};
    }
  }
  return {};
}

Result<std::vector<LoopRef>> cut_into_transposed_tiles(Schedule& s, const BlockStructure& block,
                                                       const TransposedTile& tile, const std::vector<LoopRef>& loops,
                                                       bool read_on) {
  std::vector<LoopRef> around;
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != tile.lane && i != tile.column) around.push_back(loops[i]);
  // What the outer of both loops leaves of a line is taken right after: later the line may have to come again.
  const int64_t beside = kCacheLineBytes / (tile.width * block.store.buffer->dtype.element_bytes());
  const auto factors_of = [&](size_t iter, bool is_outer) {
    const bool whole_lines = is_outer && beside > 1 && (block.open[iter] || block.extents[iter] >= beside * tile.width);
    return whole_lines ? std::vector<IntRef>{kInfer, beside, tile.width} : std::vector<IntRef>{kInfer, tile.width};
  };
  std::vector<LoopRef> columns = {loops[tile.column]}, lanes = {loops[tile.lane]};
  if (block.open[tile.column] || block.extents[tile.column] > tile.width) {
    FETTLE_TRY(columns,
               split(s, {.loop = columns[0], .factors = factors_of(tile.column, !read_on), .tail = Tail::kPartition}));
  }
  if (!block.is(tile.lane, tile.width)) {
    FETTLE_TRY(lanes, split(s, {.loop = lanes[0], .factors = factors_of(tile.lane, read_on), .tail = Tail::kMask}));
  }
  const auto& outer = read_on ? lanes : columns;
  const auto& inner = read_on ? columns : lanes;
  if (outer.size() > 1) around.push_back(outer[0]);
  if (inner.size() > 1) around.push_back(inner[0]);
  std::vector<LoopRef> order = around;
  if (outer.size() > 2) order.push_back(outer[1]);
  order.push_back(columns.back());
  order.push_back(lanes.back());
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  if (outer.size() > 2) FETTLE_TRY_VOID(unroll(s, {.loop = outer[1]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = columns.back()}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = lanes.back()}));
  return around;
}

Result<bool> copy_in_transposed_tiles(Schedule& s, BlockRef copy, int64_t lanes, bool in_parallel) {
  FETTLE_TRY(const Stmt stmt, s.block(copy));
  const auto block = block_structure(s.func(), *stmt.as<BlockNode>(), Extents::kOpen);
  const auto tile = block ? transposed_tile(*block, lanes) : std::nullopt;
  if (!tile) return false;
  Schedule trial = s;
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(trial, {copy}));
  FETTLE_TRY(const std::vector<LoopRef> around, cut_into_transposed_tiles(trial, *block, *tile, loops, false));
  if (in_parallel && !around.empty()) FETTLE_TRY_VOID(parallel(trial, {.loop = around.front()}));
  s = std::move(trial);
  return true;
}

}  // namespace fettle
