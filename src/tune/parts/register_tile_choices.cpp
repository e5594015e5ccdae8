// What register_tile decides: the tile, blocks of the reduction, and in which order tiles run.

#include <algorithm>
#include <cstdlib>

#include "target/caches.h"
#include "tune/parts/loops.h"
#include "tune/parts/preferences.h"
#include "tune/parts/register_tiling.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// Rows have vectors of their own, of an image that takes most of the second-level cache.
bool fills_l2(const RegisterTiling& t) {
  const int64_t l2 = t.cache(1);
  return t.roles.row && std::ranges::any_of(t.structure.loads, [&](const AccessPattern& load) {
           if (!load.touches(*t.roles.row) || load.strides[t.roles.vector] != 1) return false;
           int64_t bytes = load.buffer->dtype.element_bytes();
           for (const Expr& extent : load.buffer->shape) bytes *= extent_of(extent, t.typical).value;
           return 4 * bytes > 3 * l2;
         });
}

TileProblem tile_problem(const RegisterTiling& t) {
  TileProblem p;
  const BlockStructure& s = t.structure;
  p.lanes = t.lanes;
  p.vector_extent = t.extent(t.roles.vector);
  p.threads = t.options.shared > 0 ? 1 : t.options.threads;
  p.multiplies = s.multiplies_two_loads;
  for (size_t i : t.roles.reduce) p.steps *= t.extent(i);
  for (size_t i = 0; i < t.options.shared; ++i) p.repeats *= t.extent(i);
  for (size_t i : t.roles.batch) p.repeats *= t.extent(i);
  for (size_t i : t.roles.outside)
    if (!t.merged(i) && t.roles.second_row != i) p.repeats *= t.extent(i);
  p.shared_vectors = t.roles.row && std::none_of(t.roles.vector_loads.begin(), t.roles.vector_loads.end(),
                                                 [&](size_t l) { return s.loads[l].touches(*t.roles.row); });
  p.streamed = fills_l2(t);
  if (!t.roles.row) return p;
  p.row_extent = t.extent(*t.roles.row);
  p.open_rows = t.is_open(*t.roles.row);
  p.balanced_rows = tail_of_rows(s, *t.roles.row, t.choice.flat) == Tail::kBalance;
  for (size_t i : t.roles.outside)
    if (t.merged(i)) p.row_extent *= t.extent(i);
  if (t.roles.second_row && !t.choice.flat)
    p.second_row_extent = t.extent(*t.roles.second_row);
  else if (t.roles.second_row && !t.merged(*t.roles.second_row))
    p.repeats *= t.extent(*t.roles.second_row);
  const auto window = [&](size_t row, int64_t& taps, int64_t& step) {
    for (size_t r : t.roles.reduce) {
      if (!t.is_tap(r, row)) continue;
      for (size_t l : t.roles.vector_loads) {
        const std::vector<int64_t>& strides = s.loads[l].strides;
        if (!s.loads[l].shares_dimension(t.var(r), t.var(row)) || strides[r] == 0) continue;
        taps = t.extent(r);
        step = strides[row] == AccessPattern::kIrregular || strides[r] == AccessPattern::kIrregular
                   ? 1
                   : std::abs(strides[row] / strides[r]);
      }
    }
  };
  window(*t.roles.row, p.taps, p.row_step);
  if (t.roles.second_row) window(*t.roles.second_row, p.second_taps, p.second_step);
  // Few channels, so that the taps are unrolled inside of them: what windows share stays in registers.
  if (p.shared_vectors && !t.roles.row_loads.empty() && t.ends_in_channels() &&
      t.extent(t.roles.reduce.back()) <= kPictureChannels)
    for (size_t r : t.roles.reduce)
      for (size_t l : t.roles.row_loads) {
        const AccessPattern& load = s.loads[l];
        if (t.extent(r) == 1 || !t.is_unrolled(r) || !load.shares_dimension(t.var(r), t.var(*t.roles.row))) continue;
        const int64_t row = load.strides[*t.roles.row], tap = load.strides[r];
        const bool known = row != AccessPattern::kIrregular && tap != AccessPattern::kIrregular && tap != 0;
        const int64_t step = known ? std::abs(row / tap) : 1;
        p.kept_rows = std::max(p.kept_rows, std::min(step, t.extent(r) - step));
      }
  if (!t.roles.row_loads.empty()) {
    const int64_t stride = s.loads[t.roles.row_loads.front()].strides[*t.roles.row];
    if (stride != AccessPattern::kIrregular)
      p.row_stride_bytes = std::abs(stride) * s.store.buffer->dtype.element_bytes();
  }
  return p;
}

}  // namespace

Result<> RegisterTiling::decide() {
  // A tile is not longer than a row, so that it crosses at most one border.
  if (roles.flat > 0 && extent(*roles.row) >= preferences::kLongRow) {
    FETTLE_TRY(const int64_t flat, pick("flat", {1, 0}));
    choice.flat = flat != 0;
  }
  std::vector<Tile> tiles = ranked_tiles(tile_problem(*this), target);
  if (choice.flat) std::erase_if(tiles, [&](const Tile& tile) { return tile.rows > extent(*roles.row); });
  FETTLE_TRY(choice.tile, pick_tile(s, decider, std::move(tiles), name));

  if (roles.reduce.size() == 1 && roles.row && structure.multiplies_two_loads && !structure.open[roles.reduce[0]] &&
      extent(roles.reduce[0]) >= preferences::kLeastBlocked) {
    const int64_t steps = extent(roles.reduce[0]);
    std::vector<int64_t> depths = {0};
    size_t preferred_depth = 0;
    for (const int64_t depth : preferences::kDepths)
      if (depth < steps) {
        if (depth == preferences::kPreferredDepth && steps > preferences::kPreferredBlocked)
          preferred_depth = depths.size();
        depths.push_back(depth);
      }
    FETTLE_TRY(choice.depth, pick("depth", depths, preferred_depth));
    if (choice.depth > 0) blocked = roles.reduce[0];
  }
  FETTLE_TRY_VOID(order_taps());
  FETTLE_TRY_VOID(choose_packing());
  FETTLE_TRY_VOID(choose_row_packing());
  return order_tiles();
}

// A loop over few channels ends often, and where is hard to foresee. With the unrolled taps inside of it, it is one
// loop of longer steps, instead of one for each tap. The channels of a picture are unrolled with them.
Result<> RegisterTiling::order_taps() {
  enum : int64_t { kTapsOutside, kTapsInside, kAllUnrolled };
  if (!ends_in_channels()) return {};
  const size_t inner = roles.reduce.back();
  if (is_open(inner) || extent(inner) > preferences::kFewChannels || extent(inner) < 2) return {};
  int64_t steps = extent(inner);
  for (size_t i : roles.reduce)
    if (is_unrolled(i)) steps *= extent(i);
  if (steps == extent(inner)) return {};
  std::vector<int64_t> orders = {kTapsOutside, kTapsInside};
  std::vector<double> weights = {0.7, 0.3};
  if (extent(inner) <= kPictureChannels && steps <= preferences::kMostUnrolledSteps) {
    orders.push_back(kAllUnrolled);
    weights = {0.2, 0.4, 0.4};
  }
  FETTLE_TRY(const int64_t order, pick("taps_inside", orders, orders.size() > 2 ? 1 : 0, weights));
  if (order == kAllUnrolled) unrolled_channels = inner;
  if (order == kTapsInside)
    std::stable_partition(roles.reduce.begin(), roles.reduce.end(), [&](size_t i) { return !is_unrolled(i); });
  return {};
}

// Panels of short rows that are dealt out to threads: both write into the same cache lines, or what one of them
// prefetches for writing is the other's. Long rows of products have other work to do, and a small output whose panels
// are whole lines stays in the caches that it is in.
bool RegisterTiling::threads_share_rows() const {
  if (options.threads <= 1 || options.shared > 0 || !roles.row) return false;
  int64_t work = extent(roles.vector), bytes = structure.store.buffer->dtype.element_bytes();
  for (size_t i : roles.reduce) work *= extent(i);
  if (work > preferences::kShortRow) return false;
  const int64_t stride = structure.store.strides[*roles.row];
  const bool whole_lines = stride != AccessPattern::kIrregular && stride * bytes % kCacheLineBytes == 0;
  const bool own_vectors =
      std::ranges::any_of(roles.vector_loads, [&](size_t l) { return structure.loads[l].touches(*roles.row); });
  for (size_t i = 0; i < structure.n_iters(); ++i)
    if (!structure.reduce[i]) bytes *= extent(i);
  return !whole_lines || own_vectors || 8 * bytes > cache(1);
}

// Whether what windows share stays in the first-level cache from tile to tile of one panel, but not where all panels
// pass between. Then every vector comes from the second-level cache, and as two lines where pixels are no whole lines:
// more than it delivers. (Of pixels of whole lines it delivers enough.)
bool RegisterTiling::panels_keep_windows() const {
  if (!roles.row) return false;
  const auto crosses_lines = [&](size_t l) {
    const int64_t stride = structure.loads[l].strides[*roles.row];
    const int64_t bytes = structure.loads[l].buffer->dtype.element_bytes();
    return stride != 0 && stride != AccessPattern::kIrregular && stride * bytes % kCacheLineBytes != 0;
  };
  if (std::ranges::none_of(roles.vector_loads, crosses_lines)) return false;
  const TileProblem p = tile_problem(*this);
  const int64_t height = (choice.tile.second_rows - 1) * p.second_step + p.second_taps;
  const auto width = [&](int64_t rows) { return (rows - 1) * p.row_step + p.taps; };
  const int64_t pixels = height * width(choice.tile.rows) + p.taps * p.second_taps;  // weights, too
  const int64_t all_panels = pixels * extent(roles.vector) * structure.store.buffer->dtype.element_bytes();
  const int64_t one_panel = height * width(p.row_extent) * 2 * kCacheLineBytes;
  const int64_t l1 = cache(0);
  return all_panels > l1 && 10 * one_panel <= 13 * l1;
}

// Which loop is outside of the other: that over panels of columns, or that over tiles of rows.
Result<> RegisterTiling::order_tiles() {
  enum : int64_t { kPanelsOutside, kRowsOutside, kRowsInBlocks };
  if (!wide.empty()) return {};  // one panel at a time is wide
  std::vector<int64_t> orders = {kPanelsOutside, kRowsOutside};
  // Where each row has vectors of its own (depthwise convolutions, pooling), panels outside keep the rows that windows
  // share in the first-level cache; but an image that fills the second-level cache is best read in one go.
  size_t preferred = (fills_l2(*this) || threads_share_rows()) && !panels_keep_windows() ? 1 : 0;
  if (waits_for_writes()) preferred = 1;
  if (streams_panels()) {
    // A panel that the first-level cache does not keep comes from the second for each tile. It does as well where other
    // panels pass between, as many as that cache holds; and then the rows of a tile stay.
    const int64_t panels = (extent(roles.vector) + choice.tile.vectors * lanes - 1) / (choice.tile.vectors * lanes);
    int64_t tiles = 1;
    for (size_t i = 0; i < structure.n_iters(); ++i)
      if (!structure.reduce[i] && i != roles.vector) tiles *= extent(i);
    tiles /= choice.tile.rows * choice.tile.second_rows;
    const int64_t fit = cache(1) / 2 / panel_bytes();
    if (panels <= fit && tiles >= preferences::kManyTiles) preferred = 1;
    if (panels > fit && fit >= 2 && roles.batch.empty() && !blocked) {
      const int64_t blocks = (panels + fit - 1) / fit;
      choice.block = (panels + blocks - 1) / blocks;
      orders.push_back(kRowsInBlocks);
      if (tiles >= preferences::kManyTiles) preferred = 2;
    }
  }
  if (const int64_t fit = panels_of_long_runs(); fit > 0 && choice.block == 0) {
    choice.block = fit;
    orders.push_back(kRowsInBlocks);
    preferred = 2;
  }
  FETTLE_TRY(const int64_t order, pick("rows_outside", orders, preferred));
  choice.rows_outside = order != kPanelsOutside;
  if (order != kRowsInBlocks) choice.block = 0;
  return {};
}

}  // namespace fettle
