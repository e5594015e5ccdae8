#include "tune/parts/register_tile.h"

#include <algorithm>
#include <optional>

#include "schedule/primitives.h"
#include "tune/parts/copies.h"
#include "tune/parts/inline.h"
#include "tune/parts/layouts.h"
#include "tune/parts/loops.h"
#include "tune/parts/panels.h"
#include "tune/parts/phases.h"
#include "tune/parts/preferences.h"
#include "tune/parts/register_tiling.h"
#include "tune/parts/threads.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

/// Two or three values are a vector of four, part of which is thrown away.
constexpr int64_t kFewestLanes = 4;

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

}  // namespace

Result<> RegisterTiling::finish(BlockRef copy) {
  FETTLE_TRY(const BlockNode* node, block_node(s, copy));
  made.push_back(node->name);
  return {};
}

// Guards that depend on an iterator and on the rows of the tile are constants once both are unrolled.
bool RegisterTiling::guards_rows(size_t iter) const {
  return std::ranges::any_of(structure.loads, [&](const AccessPattern& load) {
    if (!load.guarded || !load.touches(iter)) return false;
    return (roles.row && load.shares_dimension(var(iter), var(*roles.row))) ||
           (roles.second_row && choice.tile.second_rows > 1 &&
            load.shares_dimension(var(iter), var(*roles.second_row)));
  });
}

// Which lanes lie inside the image depends on the tap, too: known taps leave masks at the borders alone.
bool RegisterTiling::guards_lanes(size_t iter) const {
  return std::ranges::any_of(roles.vector_loads, [&](size_t l) {
    const AccessPattern& load = structure.loads[l];
    const int64_t stride = load.strides[roles.vector];
    return load.guarded && stride != 0 && stride != AccessPattern::kIrregular &&
           load.shares_dimension(var(iter), var(roles.vector));
  });
}

// Small windows whose rows have vectors of their own, in an image of open height: all taps lie inside, but at its
// border. (In one of known height a tile may have several image rows.)
bool RegisterTiling::guards_open_image(size_t iter) const {
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

bool RegisterTiling::is_unrolled(size_t iter) const {
  if (iter == unrolled_channels) return true;
  if (is_open(iter) || extent(iter) <= 1 || extent(iter) > preferences::kMostTaps) return false;
  const bool shares_rows = (roles.row && is_tap(iter, *roles.row)) ||
                           (roles.second_row && choice.tile.second_rows > 1 && is_tap(iter, *roles.second_row));
  return guards_rows(iter) || shares_rows || guards_lanes(iter) || guards_open_image(iter);
}

// The innermost loop of a convolution's reduction is one over channels, inside of which taps could be unrolled.
bool RegisterTiling::ends_in_channels() const {
  return !layouts.blocked_reduce && !blocked && structure.multiplies_two_loads && roles.reduce.size() >= 2 &&
         !is_unrolled(roles.reduce.back());
}

// Small windows whose elements are only combined (pooling): all of them unrolled, not only the taps that neighbours
// share, leaves no loop to count in.
Result<bool> RegisterTiling::unrolls_windows() {
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
Result<> RegisterTiling::fuse_runs(Loops& reduce, const std::vector<size_t>& iters) {
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

Result<> RegisterTiling::tile_loops(bool padded, BlockRef back) {
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
  RegisterTiling tiling{
      .s = s, .target = target, .decider = decider, .options = options, .block = block, .name = before->name};
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
