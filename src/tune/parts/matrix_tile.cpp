#include "tune/parts/matrix_tile.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cost/predict/machine_costs.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/copies.h"
#include "tune/parts/inline.h"
#include "tune/parts/matrix_form.h"
#include "tune/parts/preferences.h"
#include "tune/parts/threads.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// Tiles of sums that are in registers at once: so many below each other, so many beside.
struct Grid {
  int64_t down = 2, across = 2;
  double cost = 0;  // cycles of the whole nest
  std::string name() const { return fmt::format("{}x{}", down, across); }
};

struct MatrixTiling : TensorTiling {
  Grid grid = {};
  bool rows_outside = false;       // row tiles outside of column panels
  int64_t rows_at_once = 1;        // tiles of rows whose part of A stays in L2
  bool panels_are_far = false;     // all of them together don't stay in L2
  std::string suffix = {};         // of the intrinsic: which factors pass the first-level cache by
  std::optional<BlockRef> result;  // copies a matrix to an output of other dimensions
  std::optional<BlockRef> out;     // copies a tile from L1 to the output

  int64_t element_bytes() const { return a().buffer->dtype.element_bytes(); }
  int64_t depth() const {
    int64_t n = extent(product.depth);
    for (size_t i : reduce) n *= extent(i);
    return n;
  }
  double room_in_l1() const { return preferences::kOfFirstLevelForTiles * static_cast<double>(cache_bytes(target, 0)); }
  std::vector<Grid> grids() const;
  Result<> make_matrices();
  Result<> decide();
  Result<> pack_rows();
  Result<> stage_output();
  Result<> tile_loops();
  Result<> store_tiles(BlockRef back, size_t first);
  Result<> delay_output(const Loops& outer);
  Result<> tensorize_inner(BlockRef tiled, size_t from_end, const std::string& intrinsic);
};

constexpr int64_t kMostSums = 4;

// Sizes of blocks that n tiles are cut into, all alike but for the last: 7 → 1, 2, 3, 4, 7.
std::vector<int64_t> block_sizes(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t size = 1; size <= n; ++size) {
    const int64_t blocks = (n + size - 1) / size;
    if ((n + blocks - 1) / blocks == size) all.push_back(size);
  }
  return all;
}

// The cheapest first: products at the unit's pace or the factors' at that of loads, whole tiles, and what begins and
// ends each of them.
std::vector<Grid> MatrixTiling::grids() const {
  const double steps = static_cast<double>(depth()) / static_cast<double>(product.steps);
  std::vector<Grid> all;
  for (int64_t down = 1; down <= kMostSums; ++down)
    for (int64_t across = 1; down * across <= kMostSums; ++across) {
      const int64_t row_tiles = (extent(*row) + product.rows - 1) / product.rows,
                    column_tiles = (extent(product.vector) + product.lanes - 1) / product.lanes;
      const int64_t n = (row_tiles + down - 1) / down * ((column_tiles + across - 1) / across);
      const auto sums = static_cast<double>(down * across), loads = static_cast<double>(down + across);
      // Panels stay in L1 where they have room.
      const double panel = static_cast<double>(across) * steps * kTileBytes;
      const double far = static_cast<double>(down) + (panel > room_in_l1() ? static_cast<double>(across) : 0);
      const double step = std::max({preferences::kTileProductLatency, preferences::kTileProductCycles * sums,
                                    preferences::kTileLoadCycles * loads, preferences::kFarTileLoadCycles * far}) +
                          loads;
      // Rows that whole grids do not divide are copied, with what is added.
      const bool whole = extent(*row) % (down * product.rows) == 0 && extent(product.depth) % product.steps == 0;
      const double copied = whole ? 0 : static_cast<double>(row_tiles * product.rows) * steps * kTileRowBytes;
      all.push_back({down, across,
                     static_cast<double>(n) * (steps * step + preferences::kTileEndCycles * sums) +
                         copied * preferences::kTileCopyCycles});
    }
  std::ranges::stable_sort(all, [](const Grid& x, const Grid& y) { return x.cost < y.cost; });
  return all;
}

// Windows of convolutions are copied into a matrix.
Result<> MatrixTiling::make_matrices() {
  if (product.a_is_plain && product.b_is_plain) return {};
  const auto roles = matrix_roles(structure);
  if (!roles) return fail(ErrorCode::E230, name + " is no product of matrices");
  const bool constant = is_constant(s.func(), structure.loads[roles->right].buffer);
  FETTLE_TRY(const MatrixCopies copies, make_matrix_product(s, block, structure, *roles));
  if (constant) FETTLE_TRY_VOID(finish(copies.right));
  result = copies.result;
  FETTLE_TRY_VOID(transform_block_layout(s, {.block = copies.result, .index_map = copies.of_result}));
  return look();
}

Result<> MatrixTiling::decide() {
  const std::vector<Grid> all = grids();
  std::vector<std::string> names;
  std::vector<double> weights;
  for (const Grid& g : all) {
    names.push_back(g.name());
    weights.push_back(all.front().cost / g.cost);
  }
  FETTLE_TRY(const size_t place, decider.pick_place(s, {"tile", std::move(names), 0, std::move(weights)}));
  grid = all[place];

  // Of the loop inside, one factor comes anew for each tile; the other stays in L1 where it has room.
  const int64_t panel = grid.across * product.lanes * depth() * element_bytes(),
                rows = grid.down * product.rows * depth() * element_bytes();
  const int64_t row_tiles = (extent(*row) + product.rows * grid.down - 1) / (product.rows * grid.down);
  // What comes from beyond L2, both ways. A tie goes to panels, unless what is written drives A out of it.
  const std::vector<int64_t> counts = block_sizes(row_tiles);
  const int64_t room = room_in_l2(target);
  size_t block = counts.size() - 1;  // so many rows that go through all panels together: their part of A stays in L2
  while (block > 0 && rows * counts[block] > room) --block;
  const int64_t left = rows * row_tiles, right = depth() * extent(product.vector) * element_bytes(),
                n_blocks = (row_tiles + counts[block] - 1) / counts[block];
  int64_t written = extent(*row) * extent(product.vector) * structure.store.buffer->dtype.element_bytes();
  for (size_t i : outside) written *= extent(i);
  panels_are_far = right > room;
  const int64_t of_panels = left + n_blocks * right, of_rows = left + (right <= room ? 1 : row_tiles) * right;
  const bool by_rows = row_tiles == 1 || of_rows < of_panels || (of_rows == of_panels && written > room);
  FETTLE_TRY(const int64_t outside_first, decider.pick(s, {"rows_outside", {0, 1}, by_rows ? size_t{1} : size_t{0}}));
  rows_outside = outside_first != 0;
  const int64_t stays = rows_outside ? rows : panel;
  const size_t preferred = static_cast<double>(stays) > room_in_l1() ? 3 : rows_outside ? 2 : 1;
  const std::vector<std::string> streams = {"none", "a", "b", "ab"};
  FETTLE_TRY(const size_t streamed, decider.pick_place(s, {"stream", streams, preferred}));
  suffix = streamed == 0 ? "" : "_stream_" + streams[streamed];

  FETTLE_TRY(rows_at_once, decider.pick(s, {"rows_at_once", counts, rows_outside ? counts.size() - 1 : block}));
  return {};
}

// A in tiles that lie densely, where the program makes it anyway, or they are read often enough.
Result<> MatrixTiling::pack_rows() {
  const Buffer buffer = a().buffer;
  const bool made_here = !s.func().find_param(buffer.get());
  const bool often = extent(product.vector) >= preferences::kOftenRead;
  FETTLE_TRY(const int64_t packed, decider.pick(s, {"pack_rows", {0, 1}, made_here || often ? size_t{1} : size_t{0}}));
  if (packed == 0) return {};
  FETTLE_TRY(int64_t read, read_index_of(s, block, buffer));
  if (!made_here) {
    FETTLE_TRY_VOID(cache_read(s, {.block = block, .read_index = read}).map([](BlockRef) {}));
    FETTLE_TRY_VOID(look());
    FETTLE_TRY(read, read_index_of(s, block, a().buffer));
  }
  const auto row_dim = static_cast<size_t>(a().dimension_of(structure.vars[*row])),
             depth_dim = static_cast<size_t>(a().dimension_of(structure.vars[product.depth]));
  IndexMap map;
  Expr i, k;
  for (size_t d = 0; d < a().indices.size(); ++d) {
    const Var var = make_var("d" + std::to_string(d));
    map.inputs.push_back(var);
    if (d == row_dim)
      i = Expr(var);
    else if (d == depth_dim)
      k = Expr(var);
    else
      map.outputs.push_back(Expr(var));
  }
  for (const Expr& e : {floordiv(i, Expr(product.rows)), floordiv(k, Expr(product.steps)),
                        floormod(i, Expr(product.rows)), floormod(k, Expr(product.steps))})
    map.outputs.push_back(e);
  // Indices are no plain iterators from here on: what the block is stays as it was looked at.
  return transform_layout(s, {.block = block, .buffer_index = read, .buffer_index_type = "read", .index_map = map});
}

// Results pass through a buffer that stays in L1. Where the sums are written as they are, tiles may go to the output at
// once; they then wait for its lines.
Result<> MatrixTiling::stage_output() {
  if (unpad || result) {
    out = unpad ? unpad : result;
    inline_consumers(s, *out);
    return {};
  }
  const bool as_they_are = s.func().find_param(structure.store.buffer.get());
  FETTLE_TRY(const int64_t staged, as_they_are ? decider.pick(s, {"stage", {0, 1}, 0}) : Result<int64_t>(1));
  if (staged == 0) return {};
  FETTLE_TRY(out, cache_write(s, {.block = block, .write_index = 0, .scope = kScopeGlobal}));
  inline_consumers(s, *out);
  return {};
}

// tensorize of the `from_end` innermost loops around a block.
Result<> MatrixTiling::tensorize_inner(BlockRef tiled, size_t from_end, const std::string& intrinsic) {
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = tiled}));
  FETTLE_TRY(const BlockRef unit, tensorize(s, {.target = loops[loops.size() - from_end], .intrinsic = intrinsic}));
  return finish(unit);
}

// for i in 32: for j in 32: L[i, j] = T[i, j]   →   for i0, j0 (unrolled): a tile
Result<> MatrixTiling::store_tiles(BlockRef back, size_t first) {
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = back}));
  if (loops.size() != first + 2) return fail(ErrorCode::E230, "the sums of " + name + " are no plain tile");
  FETTLE_TRY(const Loops down, split(s, {.loop = loops[first], .factors = {kInfer, product.rows}}));
  FETTLE_TRY(const Loops across, split(s, {.loop = loops[first + 1], .factors = {kInfer, product.lanes}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {down[0], across[0], down[1], across[1]}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = down[0]}));
  return unroll(s, {.loop = across[0]});
}

// While the unit works on one tile, what came of the one before goes to the output: by then it has arrived in L1.
Result<> MatrixTiling::delay_output(const Loops& outer) {
  FETTLE_TRY(const int64_t tiles, loop_extent(s, outer.back()));
  FETTLE_TRY(const int64_t delayed, decider.pick(s, {"delay", {0, 1}, tiles > 1 ? size_t{1} : size_t{0}}));
  if (delayed == 0 || tiles <= 1 || outer.size() < 2) return {};
  // Where tails hide what is copied, it is done in order.
  Schedule trial = s;
  if (software_pipeline(trial, {.loop = outer.back(), .stages = {0, 0, 0, 1}, .order = {0, 1, 3, 2}}))
    s = std::move(trial);
  return {};
}

Result<> MatrixTiling::tile_loops() {
  const std::string sums = structure.store.buffer->dtype.to_string();
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = block, .write_index = 0, .scope = kScopeTile}));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  FETTLE_TRY(const Loops tiles, split(s, {.loop = loops[*row], .factors = {kInfer, grid.down, product.rows}}));
  FETTLE_TRY(const Loops blocks,
             split(s, {.loop = tiles[0], .factors = {kInfer, rows_at_once}, .tail = Tail::kPartition}));
  const Loops rows = {blocks[1], tiles[1], tiles[2]};
  FETTLE_TRY(const Loops columns,
             split(s, {.loop = loops[product.vector], .factors = {kInfer, grid.across, product.lanes}}));
  FETTLE_TRY(const Loops deep, split(s, {.loop = loops[product.depth], .factors = {kInfer, product.steps}}));
  TileLoops nest{.panels = {columns[0]}, .rows = {rows[0]}, .rows_outside = rows_outside};
  Loops steps;
  for (size_t i : batch) nest.batch.push_back(loops[i]);
  for (size_t i : outside) nest.outside.push_back(loops[i]);
  for (size_t i : reduce) steps.push_back(loops[i]);
  steps.push_back(deep[0]);
  FETTLE_TRY(const int64_t n_blocks, loop_extent(s, blocks[0]));
  const Loops outer = n_blocks > 1 ? concatenated({nest.batch, nest.outside, {blocks[0]}, nest.panels, nest.rows})
                                   : concatenated({{blocks[0]}, nest.around()});
  FETTLE_TRY_VOID(
      reorder(s, {.loops = concatenated({outer, steps, {rows[1], columns[1], rows[2], columns[2], deep[1]}})}));
  FETTLE_TRY_VOID(unroll(s, {.loop = rows[1]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = columns[1]}));

  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = outer.back(), .preserve_unit_loops = false}));
  FETTLE_TRY_VOID(store_tiles(back, outer.size()));
  if (out) {
    FETTLE_TRY(const LaidOut apart, operands_apart(s, *out));
    FETTLE_TRY_VOID(reverse_compute_at(s, {.block = *out, .loop = outer.back(), .preserve_unit_loops = false}));
    FETTLE_TRY_VOID(lay_out_operands(s, *out, apart));
    FETTLE_TRY(const BlockNode* node, block_node(s, *out));
    int64_t lanes = lanes_of(target, node->writes.front().buffer->dtype);
    if (product.lanes * grid.across % lanes != 0) lanes = product.lanes;
    FETTLE_TRY_VOID(vectorize_copy(s, *out, outer.size(), lanes, false));
    FETTLE_TRY_VOID(finish(*out));
  }
  FETTLE_TRY(const BlockRef init, decompose_reduction(s, {.block = block, .loop = steps.front()}));
  FETTLE_TRY_VOID(finish(back));
  FETTLE_TRY_VOID(tensorize_inner(back, 2, "amx_store_" + sums));
  FETTLE_TRY_VOID(finish(init));
  FETTLE_TRY_VOID(tensorize_inner(init, 2, "amx_zero_" + sums));
  made.push_back(name);
  FETTLE_TRY_VOID(tensorize_inner(block, 3, std::string(product.intrinsic->name) + suffix));

  if (out) FETTLE_TRY_VOID(delay_output(outer));
  if (!rows_outside) FETTLE_TRY_VOID(may_ask_for_next_panel(s, decider, columns[0], panels_are_far));

  const double cycles = grid.cost;
  FETTLE_TRY(const bool dealt_out, worth_threads(s, decider, threads, cycles / describe_costs(target).hz * 1e9));
  if (!dealt_out) return {};
  // A thread sets its unit up for each iteration: these are whole panels where there are enough.
  Loops shared;
  for (const LoopRef loop : outer) {
    FETTLE_TRY(const int64_t n, loop_extent(s, loop));
    shared.push_back(loop);
    if (n >= threads) break;
  }
  return parallelize(s, shared, {.threads = threads});
}

}  // namespace

Result<Finished> matrix_tile(TensorTiling tiling) {
  MatrixTiling m{std::move(tiling)};
  FETTLE_TRY_VOID(m.make_matrices());
  FETTLE_TRY_VOID(m.decide());
  // Whole grids: the rest is padding, too.
  FETTLE_TRY_VOID(m.fit(m.product.rows * m.grid.down, m.product.lanes * m.grid.across));
  FETTLE_TRY_VOID(m.lay_out_rows());
  FETTLE_TRY_VOID(m.pack_rows());
  const int64_t group = m.product.intrinsic->row_group;
  FETTLE_TRY_VOID(m.lay_out_panels(m.panel_map(m.product.lanes, group)));
  FETTLE_TRY_VOID(m.stage_output());
  FETTLE_TRY_VOID(m.tile_loops());
  return std::move(m.made);
}

}  // namespace fettle
