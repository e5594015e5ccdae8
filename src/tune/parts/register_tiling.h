#pragma once
// One run of register_tile: what is known of the block, what was chosen, and the steps in their order. Its choices, its
// panels and its prefetches stand in files of their own.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "target/caches.h"
#include "tune/parts/layouts.h"
#include "tune/parts/panels.h"
#include "tune/parts/preferences.h"
#include "tune/parts/register_tile.h"
#include "tune/parts/tile_steps.h"

namespace fettle {

/// What register_tile decides.
struct ChosenTile {
  Tile tile;
  bool flat = false;
  int64_t depth = 0;          // of the blocks of the reduction; 0: not blocked
  bool packs_rows = false;    // rows are copied, so that their steps lie one behind the other
  bool rows_outside = false;  // row tiles outside of column panels
  int64_t block = 0;          // of so many panels, which all rows pass before the next; 0: all
};

/// One run.
struct RegisterTiling {
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
  ChosenTile choice;
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

}  // namespace fettle
