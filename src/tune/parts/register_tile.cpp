#include "tune/parts/register_tile.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ir/annotations.h"
#include "ir/query.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/copies.h"
#include "tune/parts/inline.h"
#include "tune/parts/layouts.h"
#include "tune/parts/loops.h"
#include "tune/parts/materialized_factors.h"
#include "tune/parts/panels.h"
#include "tune/parts/phases.h"
#include "tune/parts/preferences.h"
#include "tune/parts/threads.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

/// Two or three values are a vector of four, part of which is thrown away.
constexpr int64_t kFewestLanes = 4;

struct Chosen {
  Tile tile;
  bool flat = false;
  int64_t depth = 0;          // of the blocks of the reduction; 0: not blocked
  bool packs_rows = false;    // rows are copied, so that their steps lie one behind the other
  bool rows_outside = false;  // row tiles outside of column panels
  int64_t block = 0;          // of so many panels, which all rows pass before the next; 0: all
};

// One run.
struct Tiling {
  Schedule& s;
  const Target& target;
  Decider& decider;
  const RegisterTileOptions& options;
  BlockRef block;
  std::string name;
  Finished made = {};
  Func func;  // as it was analysed
  IntEnv typical = {};
  BlockStructure structure;
  TilingRoles roles;
  ChosenLayouts layouts;
  int64_t lanes = 1;
  Chosen choice;
  std::optional<size_t> blocked;            // the reduce iterator that depth cuts
  std::optional<size_t> unrolled_channels;  // few, and so unrolled beside the taps
  BlockRef panels = {};                     // which fills them
  std::string wide;                         // the block that makes what panels are of, of a narrow factor; or none

  Result<int64_t> pick(const std::string& choice, std::vector<int64_t> candidates, size_t preferred = 0,
                       std::vector<double> weights = {}) const {
    return decider.pick(s, {choice, std::move(candidates), preferred, std::move(weights)});
  }
  int64_t cache(size_t level) const { return cache_bytes(target, level); }
  const Var& var(size_t iter) const { return structure.vars[iter]; }
  int64_t extent(size_t iter) const { return structure.extents[iter]; }
  bool is_open(size_t iter) const { return structure.open[iter]; }
  bool merged(size_t iter) const { return choice.flat && iter < *roles.row && iter + roles.flat >= *roles.row; }
  // A tap of the windows along `row` that rows with vectors of their own read: O[w, c] += I[w + kw, c] * …
  bool is_tap(size_t iter, size_t row) const {
    return !is_open(iter) && extent(iter) > 1 && extent(iter) <= preferences::kMostTaps &&
           std::ranges::any_of(roles.vector_loads,
                               [&](size_t l) { return structure.loads[l].shares_dimension(var(iter), var(row)); });
  }

  Result<> finish(BlockRef copy);
  Result<> decide();
  Result<> choose_packing();
  Result<> choose_row_packing();
  Result<> order_tiles();
  int64_t panel_bytes() const;
  bool streams_panels() const;
  bool streams_from_l2() const;
  bool threads_share_rows() const;
  bool panels_keep_windows() const;
  bool fills_each_panel() const;
  bool waits_for_writes() const;
  int64_t panels_of_long_runs() const;
  Result<bool> pack();
  Result<> pack_narrow(int64_t width);
  Result<> pack_rows();
  Result<> fuse_runs(Loops& reduce, const std::vector<size_t>& iters);
  Result<> tile_loops(bool padded, BlockRef back);
  bool guards_rows(size_t iter) const;
  bool guards_lanes(size_t iter) const;
  bool guards_open_image(size_t iter) const;
  bool is_unrolled(size_t iter) const;
  bool ends_in_channels() const;
  Result<> order_taps();
  Result<bool> unrolls_windows();
  bool asks_near(size_t reduce_loops) const;
  Result<LoopRef> several_at_once(const std::vector<LoopRef>& reduce);
  Result<> ask_near(LoopRef step, size_t reduce_loops);
  Result<> ask_ahead(LoopRef panels, LoopRef rows, const std::vector<LoopRef>& reduce);
};

// Rows have vectors of their own, of an image that takes most of the second-level cache.
bool fills_l2(const Tiling& t) {
  const int64_t l2 = t.cache(1);
  return t.roles.row && std::ranges::any_of(t.structure.loads, [&](const AccessPattern& load) {
           if (!load.touches(*t.roles.row) || load.strides[t.roles.vector] != 1) return false;
           int64_t bytes = load.buffer->dtype.element_bytes();
           for (const Expr& extent : load.buffer->shape) bytes *= extent_of(extent, t.typical).value;
           return 4 * bytes > 3 * l2;
         });
}

// Of the loops around a block from `first` on, those that are short, from the innermost one outwards: the vectors of a
// step, and what one byte holds.
Result<> unroll_short_loops(Schedule& s, BlockRef block, size_t first) {
  constexpr int64_t kShort = 8;
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  int64_t copies = 1;
  for (size_t l = loops.size() - 1; l-- > first;) {
    FETTLE_TRY(const int64_t turns, loop_extent(s, loops[l]));
    copies *= turns;
    if (turns == 0 || copies > kShort) return {};
    FETTLE_TRY_VOID(unroll(s, {.loop = loops[l]}));
  }
  return {};
}

TileProblem tile_problem(const Tiling& t) {
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

Result<> Tiling::finish(BlockRef copy) {
  FETTLE_TRY(const BlockNode* node, block_node(s, copy));
  made.push_back(node->name);
  return {};
}

Result<> Tiling::decide() {
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

// A right factor that is no constant is read in place, or from panels that are filled while the program runs. That pays
// where its rows lie so that the caches hold few of them, and several tiles read them.
Result<> Tiling::choose_packing() {
  if (roles.panel || !roles.packable || !roles.row || !structure.multiplies_two_loads || options.shared > 0) return {};
  const AccessPattern& load = structure.loads[*roles.packable];
  if (load.touches(*roles.row) || structure.store.buffer->dtype != load.buffer->dtype) return {};
  if (const BlockNode* node = find_block(func->body, name)) {
    const BlockNode* maker = materialized_for(func, *node, load.buffer);
    if (maker && load.strides[roles.vector] == 1) {
      wide = maker->name;
      roles.panel = roles.packable;
      return {};
    }
  }
  const int64_t run = choice.tile.vectors * lanes * load.buffer->dtype.element_bytes();
  int64_t tiles = (extent(*roles.row) + choice.tile.rows - 1) / choice.tile.rows, stride = 0;
  for (size_t i : roles.outside) tiles *= extent(i);
  for (size_t i : roles.reduce)
    if (load.touches(i)) stride = std::max(stride, std::abs(load.strides[i]) * load.buffer->dtype.element_bytes());
  if (tiles < preferences::kTilesOfPanel || stride <= run) return {};
  const auto held = static_cast<double>(cache_bytes_of_runs(target, 1, run, stride));
  const bool is_far = static_cast<double>(panel_bytes()) > preferences::kOfSecondLevel * held;
  const bool many = tiles >= preferences::kManyTilesOfPanel && !waits_for_writes();
  FETTLE_TRY(const int64_t packed, pick("pack", {0, 1}, is_far || many ? 1 : 0));
  if (packed != 0) roles.panel = roles.packable;
  return {};
}

// A left factor whose steps lie far apart (it is transposed): each step of a tile reads a few elements of a line of its
// own. The first-level cache keeps none of these lines for the next tile, and no hardware asks for them ahead. Where
// several panels read them, they are transposed first.
Result<> Tiling::choose_row_packing() {
  if (!roles.row || !roles.panel || roles.row_loads.size() != 1 || roles.reduce.size() != 1 ||
      !structure.multiplies_two_loads || options.shared > 0)
    return {};
  const AccessPattern& load = structure.loads[roles.row_loads[0]];
  const size_t step = roles.reduce[0];
  if (load.strides[*roles.row] != 1 || load.dimension_of(var(*roles.row)) < 0 || load.dimension_of(var(step)) < 0 ||
      load.guarded || is_constant(func, load.buffer) || load.buffer == structure.loads[*roles.panel].buffer)
    return {};
  const int64_t element = load.buffer->dtype.element_bytes(), stride = std::abs(load.strides[step]) * element,
                run = choice.tile.rows * element, width = choice.tile.vectors * lanes;
  const int64_t panels = (extent(roles.vector) + width - 1) / width;
  if (stride <= run || panels < preferences::kPanelsOfPackedRows) return {};
  const bool is_far = extent(step) * kCacheLineBytes > cache_bytes_of_runs(target, 0, run, stride);
  FETTLE_TRY(const int64_t packed, pick("pack_rows", {0, 1}, is_far ? 1 : 0));
  choice.packs_rows = packed != 0;
  return {};
}

// Panels outside write short runs of many rows, whose lines come from far away. A tile of few steps ends before they
// have come. Rows outside write one after the other, while the other factor stays in the second-level cache.
bool Tiling::waits_for_writes() const {
  if (!structure.multiplies_two_loads || !roles.row) return false;
  const int64_t element = structure.store.buffer->dtype.element_bytes();
  int64_t steps = 1, written = element;
  for (size_t i = 0; i < structure.n_iters(); ++i) (structure.reduce[i] ? steps : written) *= extent(i);
  const int64_t run = choice.tile.vectors * lanes;
  return steps <= preferences::kFewStepsOfWrites && run < extent(roles.vector) && written > cache(1) &&
         2 * steps * extent(roles.vector) * element <= cache(1);
}

// The same of a long other factor: as many panels as take half of the second-level cache, so that the runs of all rows
// are as long. 0 where there is nothing to wait for, or one block has all.
int64_t Tiling::panels_of_long_runs() const {
  if (!structure.multiplies_two_loads || !roles.row || roles.vector_loads.size() != 1 || blocked) return 0;
  if (structure.loads[roles.vector_loads[0]].touches(*roles.row)) return 0;
  const int64_t element = structure.store.buffer->dtype.element_bytes(), run = choice.tile.vectors * lanes;
  int64_t steps = 1, written = element;
  for (size_t i = 0; i < structure.n_iters(); ++i) (structure.reduce[i] ? steps : written) *= extent(i);
  if (steps > preferences::kFewStepsOfWrites || written <= cache(1) || structure.store.strides[roles.vector] != 1)
    return 0;
  const int64_t panels = (extent(roles.vector) + run - 1) / run, fit = cache(1) / (2 * steps * run * element);
  return fit >= 2 && panels > fit ? fit : 0;
}

// Each panel just before its tiles, so that it is still near.
bool Tiling::fills_each_panel() const {
  return roles.panel && roles.panel == roles.packable && !choice.rows_outside && choice.block == 0;
}

// Guards that depend on an iterator and on the rows of the tile are constants once both are unrolled.
bool Tiling::guards_rows(size_t iter) const {
  return std::ranges::any_of(structure.loads, [&](const AccessPattern& load) {
    if (!load.guarded || !load.touches(iter)) return false;
    return (roles.row && load.shares_dimension(var(iter), var(*roles.row))) ||
           (roles.second_row && choice.tile.second_rows > 1 &&
            load.shares_dimension(var(iter), var(*roles.second_row)));
  });
}

// Which lanes lie inside the image depends on the tap, too: known taps leave masks at the borders alone.
bool Tiling::guards_lanes(size_t iter) const {
  return std::ranges::any_of(roles.vector_loads, [&](size_t l) {
    const AccessPattern& load = structure.loads[l];
    const int64_t stride = load.strides[roles.vector];
    return load.guarded && stride != 0 && stride != AccessPattern::kIrregular &&
           load.shares_dimension(var(iter), var(roles.vector));
  });
}

// Small windows whose rows have vectors of their own, in an image of open height: all taps lie inside, but at its
// border. (In one of known height a tile may have several image rows.)
bool Tiling::guards_open_image(size_t iter) const {
  int64_t taps = 1;
  for (size_t i : roles.reduce) taps *= extent(i);
  if (!structure.multiplies_two_loads || !roles.row || taps > preferences::kFewTaps) return false;
  return std::ranges::any_of(roles.vector_loads, [&](size_t l) {
    const AccessPattern& load = structure.loads[l];
    return load.guarded && load.touches(*roles.row) && std::ranges::any_of(roles.outside, [&](size_t i) {
             return is_open(i) && load.shares_dimension(var(iter), var(i));
           });
  });
}

bool Tiling::is_unrolled(size_t iter) const {
  if (iter == unrolled_channels) return true;
  if (is_open(iter) || extent(iter) <= 1 || extent(iter) > preferences::kMostTaps) return false;
  const bool shares_rows = (roles.row && is_tap(iter, *roles.row)) ||
                           (roles.second_row && choice.tile.second_rows > 1 && is_tap(iter, *roles.second_row));
  return guards_rows(iter) || shares_rows || guards_lanes(iter) || guards_open_image(iter);
}

// The innermost loop of a convolution's reduction is one over channels, inside of which taps could be unrolled.
bool Tiling::ends_in_channels() const {
  return !layouts.blocked_reduce && !blocked && structure.multiplies_two_loads && roles.reduce.size() >= 2 &&
         !is_unrolled(roles.reduce.back());
}

// A loop over few channels ends often, and where is hard to foresee. With the unrolled taps inside of it, it is one
// loop of longer steps, instead of one for each tap. The channels of a picture are unrolled with them.
Result<> Tiling::order_taps() {
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
bool Tiling::threads_share_rows() const {
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
bool Tiling::panels_keep_windows() const {
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
Result<> Tiling::order_tiles() {
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

// What a panel and a tile of rows take, while one is worked through.
int64_t Tiling::panel_bytes() const {
  int64_t steps = 1;
  for (size_t i : roles.reduce) steps *= extent(i);
  if (choice.depth > 0) steps = std::min(steps, choice.depth);
  return steps * choice.tile.vectors * lanes * structure.store.buffer->dtype.element_bytes();
}

// All rows share the vectors of a packed panel, which does not stay in the first-level cache.
bool Tiling::streams_panels() const {
  if (!roles.panel || !roles.row || roles.vector_loads.size() != 1) return false;
  if (structure.loads[roles.vector_loads[0]].touches(*roles.row)) return false;
  return 5 * panel_bytes() > 3 * cache(0);
}

// One tile has all rows, and what it reads of vectors takes more than the first-level cache, and no more than the
// second: there it may still lie from the call before. The hardware asks ahead by what each load has read before. With
// several steps at once each of them strides over what the others read: Zen 5 then gets half of what its second level
// delivers. (What comes from farther away comes as slowly either way.)
bool Tiling::streams_from_l2() const {
  int64_t rows = 1, bytes = extent(roles.vector) * structure.store.buffer->dtype.element_bytes();
  for (size_t i = 0; i < structure.n_iters(); ++i) {
    if (structure.reduce[i]) bytes *= extent(i);
    if (!structure.reduce[i] && i != roles.vector) rows *= extent(i);
  }
  return rows <= choice.tile.rows * choice.tile.second_rows && bytes > cache(0) && bytes <= cache(1);
}

// Reads the vectors from panels; true if everything that moves with the vectors is read so, surplus lanes included.
Result<bool> Tiling::pack() {
  if (!roles.panel) return false;
  const AccessPattern& load = structure.loads[*roles.panel];
  if (!wide.empty()) FETTLE_TRY_VOID(pack_narrow(choice.tile.vectors * lanes));
  FETTLE_TRY(panels, pack_panels(s, block, load.buffer,
                                 panel_map(structure, roles, load, choice.tile.vectors * lanes, layouts.blocked_reduce,
                                           lanes)));
  if (roles.panel_is_constant) {  // runs once, when the program is compiled
    FETTLE_TRY(const BlockNode* copy, block_node(s, panels));
    made.insert(made.end(), {copy->name, copy->name + "_pad"});
  }
  if (!wide.empty()) {
    FETTLE_TRY(const BlockRef maker, get_block(s, {.name = wide}));
    FETTLE_TRY_VOID(compute_inline(s, {.block = maker}));
  }
  return roles.vector_loads.size() == 1;
}

// The constants of which wide panels are made lie in panels, too: (n, …) → (n // width, …, n % width)
Result<> Tiling::pack_narrow(int64_t width) {
  const auto next = [&]() -> std::optional<std::pair<Buffer, size_t>> {
    const Func now = s.func();
    const BlockNode* maker = find_block(now->body, wide);
    const VarNode* column = maker->iters.back().var.get();
    std::optional<std::pair<Buffer, size_t>> found;
    each_node<LoadNode>(maker->body, [&](const LoadNode& load) {
      for (size_t d = 0; d < load.indices.size(); ++d)
        if (!found && load.indices[d].get() == column && is_constant(now, load.buffer)) found = {load.buffer, d};
    });
    return found;
  };
  while (const auto narrow = next()) {
    const auto& [buffer, along] = *narrow;
    IndexMap map;
    for (size_t d = 0; d < buffer->shape.size(); ++d) map.inputs.push_back(make_var("d" + std::to_string(d)));
    const Expr column = map.inputs[along];
    map.outputs.push_back(floordiv(column, Expr(width)));
    for (size_t d = 0; d < map.inputs.size(); ++d)
      if (d != along) map.outputs.push_back(map.inputs[d]);
    map.outputs.push_back(floormod(column, Expr(width)));
    FETTLE_TRY(const BlockRef maker, get_block(s, {.name = wide}));
    FETTLE_TRY(const BlockRef copy, pack_panels(s, maker, buffer, map));
    FETTLE_TRY(const BlockNode* node, block_node(s, copy));
    made.insert(made.end(), {node->name, node->name + "_pad"});
  }
  return {};
}

// Reads the rows from a copy whose innermost dimension is that of the reduction. The copy is scheduled as any block.
Result<> Tiling::pack_rows() {
  if (!choice.packs_rows) return {};
  const AccessPattern& load = structure.loads[roles.row_loads[0]];
  const auto row = static_cast<size_t>(load.dimension_of(var(*roles.row))),
             step = static_cast<size_t>(load.dimension_of(var(roles.reduce[0])));
  IndexMap map;
  for (size_t d = 0; d < load.indices.size(); ++d) map.inputs.push_back(make_var("d" + std::to_string(d)));
  for (size_t d = 0; d < load.indices.size(); ++d)
    if (d != row && d != step) map.outputs.emplace_back(map.inputs[d]);
  map.outputs.emplace_back(map.inputs[row]);
  map.outputs.emplace_back(map.inputs[step]);
  return pack_panels(s, block, load.buffer, map).map([](BlockRef) {});
}

// Small windows whose elements are only combined (pooling): all of them unrolled, not only the taps that neighbours
// share, leaves no loop to count in.
Result<bool> Tiling::unrolls_windows() {
  int64_t taps = 1;
  bool loops_left = false;
  for (size_t i : roles.reduce) {
    if (is_open(i)) return false;
    taps *= extent(i);
    loops_left |= extent(i) > 1 && !is_unrolled(i);
  }
  if (structure.multiplies_two_loads || !loops_left || roles.reduce.size() < 2 || taps > preferences::kFewTaps)
    return false;
  FETTLE_TRY(const int64_t whole, pick("unroll_windows", {0, 1}));
  return whole != 0;
}

// Taps and channels of one row that lie in one run: one loop. So are the steps of a factor that is unpacked, of which a
// block of steps, a byte and what it holds are loops of their own.
Result<> Tiling::fuse_runs(Loops& reduce, const std::vector<size_t>& iters) {
  const size_t inner = iters.back();
  if (layouts.blocked_reduce || blocked || is_open(inner) || extent(inner) > 16) return {};
  int64_t run = extent(inner);
  for (size_t r = iters.size() - 1; r > 0; --r) {
    const size_t a = iters[r - 1], b = iters[r];
    const bool one_run = !is_open(a) && !is_unrolled(a) && !is_unrolled(b) && extent(a) > 1 && extent(b) > 1 &&
                         !roles.row_loads.empty() &&
                         std::all_of(structure.loads.begin(), structure.loads.end(), [&](const AccessPattern& load) {
                           const bool packed = roles.panel && &load == &structure.loads[*roles.panel];
                           return packed || (!load.guarded && load.strides[inner] == 1 && load.strides[a] == run);
                         });
    if (!one_run) return {};
    FETTLE_TRY(const LoopRef fused, fuse(s, {.loops = {reduce[reduce.size() - 2], reduce.back()}}));
    reduce.pop_back();
    reduce.back() = fused;
    if (wide.empty()) return {};
    run *= extent(a);
  }
  return {};
}

Result<> Tiling::tile_loops(bool padded, BlockRef back) {
  const Tile& tile = choice.tile;
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));

  // --- cut
  Loops reduce;
  std::vector<size_t> reduce_iters;
  LoopRef depth_outer;
  for (size_t i : roles.reduce) {
    LoopRef loop = loops[i];
    if (blocked == i) {
      FETTLE_TRY(const Loops parts,
                 split(s, {.loop = loop, .factors = {kInfer, choice.depth}, .tail = Tail::kBalance}));
      depth_outer = parts[0];
      loop = parts[1];
    }
    if (layouts.blocked_reduce == i) {
      FETTLE_TRY(const Loops parts, split(s, {.loop = loop, .factors = {kInfer, lanes}, .tail = Tail::kPartition}));
      reduce.insert(reduce.begin(), parts[0]);
      reduce_iters.insert(reduce_iters.begin(), i);
      loop = parts[1];
    }
    reduce.push_back(loop);
    reduce_iters.push_back(i);
  }
  if (layouts.blocked_reduce) {  // channels within a block innermost
    for (size_t r = 1; r < reduce.size(); ++r)
      if (reduce_iters[r] == *layouts.blocked_reduce) {
        std::rotate(reduce.begin() + static_cast<std::ptrdiff_t>(r),
                    reduce.begin() + static_cast<std::ptrdiff_t>(r) + 1, reduce.end());
        std::rotate(reduce_iters.begin() + static_cast<std::ptrdiff_t>(r),
                    reduce_iters.begin() + static_cast<std::ptrdiff_t>(r) + 1, reduce_iters.end());
        break;
      }
  }
  Loops rows_outer, rows_inner, outside;
  for (size_t i : roles.outside) {
    if (merged(i)) continue;
    if (roles.second_row == i && tile.second_rows > 1) {
      FETTLE_TRY(const Loops parts,
                 split(s, {.loop = loops[i], .factors = {kInfer, tile.second_rows}, .tail = Tail::kBalance}));
      rows_inner.push_back(parts[1]);
      outside.push_back(parts[0]);
    } else {
      outside.push_back(loops[i]);
    }
  }
  if (roles.row) {
    FETTLE_TRY(const LoopRef row, whole_rows(s, loops, roles, choice.flat));
    FETTLE_TRY(const Loops parts, cut_rows(s, row, tile.rows, tail_of_rows(structure, *roles.row, choice.flat)));
    rows_outer.push_back(parts[0]);
    rows_inner.push_back(parts[1]);
  }
  FETTLE_TRY(Loops columns, cut_columns(s, loops[roles.vector], tile.vectors, lanes, padded));

  // --- order
  Loops outer;
  for (size_t i : roles.batch) outer.push_back(loops[i]);
  if (choice.block > 0) {
    FETTLE_TRY(const Loops parts,
               split(s, {.loop = columns[0], .factors = {kInfer, choice.block}, .tail = Tail::kPartition}));
    outer.push_back(parts[0]);
    columns[0] = parts[1];
  }
  outer = TileLoops{outer, {columns[0]}, outside, rows_outer, choice.rows_outside}.around();
  const Loops inner = concatenated({rows_inner, {columns[1], columns[2]}});
  const Loops whole_nest = concatenated({blocked ? Loops{depth_outer} : Loops(), outer, reduce, inner});
  const size_t around_tile = options.shared + outer.size() + (blocked ? 1 : 0);
  FETTLE_TRY_VOID(reorder(s, {.loops = whole_nest}));

  // --- the tile
  FETTLE_TRY_VOID(unroll_tile(s, inner));
  FETTLE_TRY(const bool whole, unrolls_windows());
  for (size_t r = 0; r < reduce.size(); ++r)
    if (whole || is_unrolled(reduce_iters[r])) FETTLE_TRY_VOID(unroll(s, {.loop = reduce[r]}));
  FETTLE_TRY_VOID(fuse_runs(reduce, reduce_iters));

  Loops dealt_out = outer;
  if (fills_each_panel()) {
    FETTLE_TRY_VOID(compute_at(s, {.block = panels, .loop = columns[0], .preserve_unit_loops = false}));
    const auto at = std::ranges::find(outer, columns[0]) - outer.begin();
    const size_t around = static_cast<size_t>(at) + 1 + (blocked ? 1 : 0);
    FETTLE_TRY_VOID(vectorize_copy(s, panels, around, lanes, false));
    if (!wide.empty()) FETTLE_TRY_VOID(unroll_short_loops(s, panels, around));
    FETTLE_TRY_VOID(finish(panels));
    dealt_out.resize(static_cast<size_t>(at) + 1);
  }

  // --- accumulators
  if (blocked) {
    FETTLE_TRY(const std::vector<BlockRef> copies,
               cache_inplace(s, {.block = block, .write_index = 0, .loop = outer.back()}));
    inline_consumers(s, copies.back());
    for (const BlockRef& copy : copies) {
      FETTLE_TRY_VOID(finish(copy));
      FETTLE_TRY_VOID(vectorize_copy(s, copy, around_tile, lanes));
    }
  } else {
    FETTLE_TRY_VOID(write_back(s, back, outer.back(), around_tile, lanes));
    FETTLE_TRY_VOID(finish(back));
    FETTLE_TRY_VOID(begin_sums(s, block, reduce.front()));
  }
  made.insert(made.end(), {name, name + "_init"});
  if (options.shared == 0) {
    // Without rows each vector is read from the second-level cache for one multiply-add.
    const double ns = alone_ns(target, structure) * (roles.row ? 1 : 2);
    FETTLE_TRY(const bool pays, worth_threads(s, decider, options.threads, ns));
    if (pays) FETTLE_TRY_VOID(parallelize(s, dealt_out, {.threads = options.threads}));
  }
  Loops turning;
  for (const LoopRef& loop : reduce) {
    FETTLE_TRY(const int64_t turns, loop_extent(s, loop));
    if (turns != 1 || loop == reduce.back()) turning.push_back(loop);
  }
  return ask_ahead(columns[0], rows_outer.empty() ? LoopRef() : rows_outer.back(), turning);
}

// The next rows of a panel come from the second-level cache, and are asked for. Steps that are not taken several at
// once ask one by one: worth it where each reads several lines.
bool Tiling::asks_near(size_t reduce_loops) const {
  const int64_t bytes = choice.tile.vectors * lanes * structure.store.buffer->dtype.element_bytes();
  return streams_panels() && (reduce_loops == 1 || bytes > kCacheLineBytes);
}

// A few steps make one iteration: fewer instructions that only count, which take the place of multiply-adds. The
// innermost of the reduction's loops, afterwards.
Result<LoopRef> Tiling::several_at_once(const Loops& reduce) {
  constexpr int64_t kStepsAtOnce = preferences::kStepsAtOnce;
  LoopRef step = reduce.back();
  const auto stmt = s.loop(step);
  if (!stmt || stmt->as<ForNode>()->loop_kind != ForKind::kSerial || !structure.multiplies_two_loads) return step;
  FETTLE_TRY(const int64_t steps, loop_extent(s, step));
  const bool even = (!blocked || extent(*blocked) % choice.depth == 0) && steps % kStepsAtOnce == 0;
  if (!even || steps < 2 * kStepsAtOnce) return step;
  const int64_t work = choice.tile.rows * choice.tile.second_rows * choice.tile.vectors;
  const bool long_loop = steps >= 8 * kStepsAtOnce;
  // Sums of single vectors wander from register to register between steps, and need some to spare.
  const bool fits = choice.tile.vectors > 1 || work + 4 < target.vector_registers;
  // A second-level cache of two mebibytes is farther away, and waiting for it leaves the core less time to count.
  const bool waits = asks_near(1) && cache(1) >= preferences::kFarCacheBytes;
  const bool counts = work < preferences::kFewMultiplyAdds && fits && !streams_from_l2();
  const bool preferred = counts || (reduce.size() == 1 && long_loop && waits);
  return several_steps(s, decider, step, {1, kStepsAtOnce}, preferred ? 1 : 0).map([](const Loops& parts) {
    return parts.back();
  });
}

// A hundred cycles early.
Result<> Tiling::ask_near(LoopRef step, size_t reduce_loops) {
  if (roles.vector_loads.size() != 1 || 4 * panel_bytes() < cache(0)) return {};
  FETTLE_TRY(const int64_t near, pick("prefetch_near", {0, preferences::kStepsAhead}, asks_near(reduce_loops) ? 1 : 0));
  return near == 0 ? Result<>() : annotate(s, {.target = step, .key = kPrefetchNearKey, .value = near});
}

// What comes from far away is asked for early: the next panel of vectors or the next step of the outermost reduction
// loop (the next channels of a convolution's weights), and the rows of the next tile.
Result<> Tiling::ask_ahead(LoopRef panels, LoopRef rows, const Loops& reduce) {
  const auto innermost = s.loop(reduce.back());
  const bool is_serial = innermost && innermost->as<ForNode>()->loop_kind == ForKind::kSerial;
  const auto exists = [&](LoopRef loop) { return s.loop(loop).has_value(); };  // it may have been fused
  int64_t steps = 1, near = 1;  // iterations of the innermost loop: of a panel, of one step of the outermost loop
  for (size_t i = 0; i < structure.n_iters(); ++i)
    if (structure.reduce[i]) steps *= extent(i);
  for (size_t r = 1; r < reduce.size(); ++r) {
    FETTLE_TRY(const int64_t n, loop_extent(s, reduce[r]));
    near *= n;
  }
  FETTLE_TRY(const LoopRef step, several_at_once(reduce));
  if (!roles.panel || !is_serial) return {};
  const int64_t element = structure.store.buffer->dtype.element_bytes();
  const int64_t l2 = cache(1);

  enum : int64_t { kNothing, kNextPanel, kNextStep };
  std::vector<int64_t> candidates = {kNothing};
  const int64_t at_once = choice.depth > 0 ? std::min(choice.depth, steps) : steps;
  const bool far = 2 * steps * extent(roles.vector) * element > l2;
  const bool two_fit = 4 * at_once * choice.tile.vectors * lanes * element <= 2 * l2;
  size_t preferred = 0;
  if (exists(panels)) {
    candidates.push_back(kNextPanel);
    if (far && two_fit && !choice.rows_outside) preferred = 1;
  }
  if (reduce.size() > 1 && near > 1 && near < steps) {  // nearer in time, so it is still there when its turn comes
    candidates.push_back(kNextStep);
    // On short vectors a step is over in the time of a few requests: 7x7 images take a quarter longer with them.
    if (far && !choice.rows_outside && lanes >= preferences::kLongVector) preferred = candidates.size() - 1;
  }
  FETTLE_TRY(const int64_t ahead, pick("prefetch", candidates, preferred));
  if (ahead == kNextPanel) FETTLE_TRY_VOID(ask_for_next_panel(s, panels));
  if (ahead == kNextStep) FETTLE_TRY_VOID(annotate(s, {.target = step, .key = kPrefetchKey, .value = near}));

  FETTLE_TRY_VOID(ask_near(step, reduce.size()));

  if (!roles.row || roles.row_loads.empty() || choice.rows_outside || !exists(rows)) return {};
  int64_t row_bytes = steps * extent(*roles.row) * element;
  for (size_t i : roles.outside) row_bytes *= extent(i);
  if (row_bytes <= l2) return {};
  FETTLE_TRY(const int64_t next_rows, pick("prefetch_rows", {0, 1}, 4 * row_bytes > cache(2)));
  if (next_rows == 0) return {};
  return annotate(s, {.target = rows, .key = kPrefetchKey, .value = 1});
}

}  // namespace

bool fits_register_tile(const Func& func, const BlockNode& block) {
  if (!block.init) return false;
  const auto structure = block_structure(func, block, Extents::kOpen);
  if (!structure || structure->loads.empty()) return false;
  if (std::ranges::none_of(structure->reduce, [](bool r) { return r; })) return false;
  const auto roles = tiling_roles(func, *structure, layout_vector(func, *structure));
  return roles.has_value();
}

Result<Finished> register_tile(Schedule& s, const Target& target, Decider& decider, BlockRef block,
                               const RegisterTileOptions& options) {
  FETTLE_TRY(const BlockNode* before, block_node(s, block));
  Tiling tiling{.s = s, .target = target, .decider = decider, .options = options, .block = block, .name = before->name};
  if (options.shared == 0) {
    FETTLE_TRY_VOID(split_groups(s, target, decider, block));
    FETTLE_TRY_VOID(split_phases(s, block));
    FETTLE_TRY(tiling.layouts, choose_layouts(s, target, decider, block));
  }

  tiling.func = s.func();
  tiling.typical = typical_values(tiling.func);
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto structure = block_structure(tiling.func, *node, Extents::kOpen);
  if (!structure) return fail(ErrorCode::E230, "no plain nest around " + tiling.name);
  tiling.structure = *structure;
  const auto roles = tiling_roles(tiling.func, *structure, tiling.layouts.vector, options.shared);
  if (!roles) return fail(ErrorCode::E230, "no iterator of " + tiling.name + " fills vectors");
  tiling.roles = *roles;
  tiling.lanes = lanes_of(target, structure->store.buffer->dtype);
  while (!structure->open[roles->vector] && tiling.lanes > kFewestLanes &&
         tiling.lanes / 2 >= tiling.extent(roles->vector))
    tiling.lanes /= 2;

  FETTLE_TRY_VOID(tiling.decide());
  FETTLE_TRY(const bool padded, tiling.pack());
  FETTLE_TRY_VOID(tiling.pack_rows());
  BlockRef back;
  if (!tiling.blocked) {
    const auto flat = tiling.choice.flat ? std::optional(flat_map(*structure, *roles)) : std::nullopt;
    FETTLE_TRY(back, accumulate_in_registers(s, block, flat));
  }
  FETTLE_TRY_VOID(tiling.tile_loops(padded, back));
  return std::move(tiling.made);
}

}  // namespace fettle
