#include "tune/parts/tensor_tile.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "cost/predict/machine_costs.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/inline.h"
#include "tune/parts/matrix_tile.h"
#include "tune/parts/preferences.h"
#include "tune/parts/tensor_tiling.h"
#include "tune/parts/threads.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// Tiles of vectors, each a dot product in every lane.
struct DotTiling : TensorTiling {
  Tile tile = {};
  bool rows_outside = false;  // row tiles outside of column panels

  Result<> decide();
  Result<> tile_loops();
  Result<> unroll_few_channels(const Loops& steps);
};

Result<> DotTiling::decide() {
  TileProblem p;
  p.lanes = product.lanes;
  p.vector_extent = extent(product.vector);
  p.threads = threads;
  p.steps = extent(product.depth) / product.steps;
  for (size_t i : reduce) p.steps *= extent(i);
  for (size_t i : batch) p.repeats *= extent(i);
  for (size_t i : outside) p.repeats *= extent(i);
  if (row) {
    p.row_extent = extent(*row);
    p.open_rows = structure.open[*row];
    p.balanced_rows = tail_of_rows(structure, *row, false) == Tail::kBalance;
    if (const int64_t stride = a().strides[*row]; stride != AccessPattern::kIrregular)
      p.row_stride_bytes = std::abs(stride) * a().buffer->dtype.element_bytes();
  }
  std::vector<Tile> tiles = ranked_tiles(p, target);
  // Sequences of instructions need registers of their own.
  if (of_pairs())
    std::erase_if(tiles, [&](const Tile& t) { return t.rows * t.vectors + t.vectors + 2 > target.vector_registers; });
  else if (product.intrinsic->instructions > 1)
    std::erase_if(tiles, [&](const Tile& t) {
      return t.vectors > 1 && t.rows * t.vectors + 2 * t.vectors + 3 > target.vector_registers;
    });
  std::erase_if(tiles, [](const Tile& t) { return t.second_rows > 1; });
  const auto hides_latency = [](const Tile& t) { return t.rows * t.vectors >= preferences::kSumsOfDotProducts; };
  if (!of_pairs() && std::ranges::any_of(tiles, hides_latency))  // the sums of pairs wait for an addition alone
    std::erase_if(tiles, std::not_fn(hides_latency));
  FETTLE_TRY(tile, pick_tile(s, decider, std::move(tiles), name));

  // Where all of B stays in L2, what is written need not drive the rows' operand out of it: each row tile is read once.
  int64_t read = extent(product.vector) * extent(product.depth) * b().buffer->dtype.element_bytes();
  for (size_t i : reduce) read *= extent(i);
  int64_t written = structure.store.buffer->dtype.element_bytes() * extent(product.vector);
  for (size_t i : outside) written *= extent(i);
  if (row) written *= extent(*row);
  const int64_t l2 = cache_bytes(target, 1);
  FETTLE_TRY(const int64_t outside_first,
             decider.pick(s, {"rows_outside", {0, 1}, 2 * read <= l2 && written > l2 ? size_t{1} : size_t{0}}));
  rows_outside = outside_first != 0;
  return {};
}

// Of few channels: a loop of few steps takes as long to leave as to run, so the taps of a row are unrolled with them.
Result<> DotTiling::unroll_few_channels(const Loops& steps) {
  int64_t unrolled = extent(product.depth) / product.steps;
  if (!of_pairs() || reduce.empty() || unrolled > preferences::kStepsAtOnce) return {};
  FETTLE_TRY_VOID(unroll(s, {.loop = steps.back()}));
  for (size_t i = reduce.size(); i-- > 1;) {
    unrolled *= extent(reduce[i]);
    if (unrolled > preferences::kMostUnrolledSteps) break;
    FETTLE_TRY_VOID(unroll(s, {.loop = steps[i]}));
  }
  return {};
}

Result<> DotTiling::tile_loops() {
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = block, .write_index = 0, .scope = kScopeRegister}));
  inline_consumers(s, unpad ? *unpad : back);
  FETTLE_TRY(const LaidOut apart, operands_apart(s, unpad ? *unpad : back));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));

  FETTLE_TRY(const Loops columns, cut_columns(s, loops[product.vector], tile.vectors, product.lanes, false));
  FETTLE_TRY(const Loops depth, split(s, {.loop = loops[product.depth], .factors = {kInfer, product.steps}}));
  TileLoops nest{.panels = {columns[0]}, .rows_outside = rows_outside};
  Loops inner, steps;
  for (size_t i : batch) nest.batch.push_back(loops[i]);
  for (size_t i : outside) nest.outside.push_back(loops[i]);
  if (row) {
    FETTLE_TRY(const Loops rows, cut_rows(s, loops[*row], tile.rows, tail_of_rows(structure, *row, false)));
    nest.rows = {rows[0]};
    inner = {rows[1]};
  }
  inner.insert(inner.end(), {columns[1], columns[2]});
  for (size_t i : reduce) steps.push_back(loops[i]);
  steps.push_back(depth[0]);
  const Loops outer = nest.around();
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({outer, steps, inner, {depth[1]}})}));
  FETTLE_TRY_VOID(unroll_tile(s, inner));

  FETTLE_TRY_VOID(write_back(s, back, outer.back(), outer.size(), product.lanes));
  FETTLE_TRY_VOID(finish(back));
  if (unpad) {  // tile by tile, while it is in L1
    FETTLE_TRY_VOID(write_back(s, *unpad, outer.back(), outer.size(), product.lanes));
    FETTLE_TRY_VOID(finish(*unpad));
  }
  FETTLE_TRY_VOID(lay_out_operands(s, unpad ? *unpad : back, apart));
  FETTLE_TRY_VOID(begin_sums(s, block, steps.front()));
  FETTLE_TRY(const BlockRef unit,
             tensorize(s, {.target = columns[2], .intrinsic = std::string(product.intrinsic->name)}));
  FETTLE_TRY_VOID(finish(unit));
  FETTLE_TRY_VOID(unroll_few_channels(steps));
  made.insert(made.end(), {name, name + "_init"});
  const int64_t instructions = structure.points() / (product.lanes * product.steps);
  FETTLE_TRY(const bool dealt_out,
             worth_threads(s, decider, threads,
                           rough_ns({.multiply_adds = static_cast<double>(instructions)}, describe_costs(target))));
  if (dealt_out) FETTLE_TRY_VOID(parallelize(s, outer, {.threads = threads}));

  // What comes from beyond L2 is asked for while the panel before is at work.
  const auto bytes = [&](int64_t width) {
    int64_t n = width * extent(product.depth) * b().buffer->dtype.element_bytes();
    for (size_t i : reduce) n *= extent(i);
    return n;
  };
  if (rows_outside) return {};
  const int64_t l2 = cache_bytes(target, 1);
  const bool far = 2 * bytes(extent(product.vector)) > l2 && 2 * bytes(tile.vectors * product.lanes) <= l2;
  return may_ask_for_next_panel(s, decider, columns[0], far);
}

}  // namespace

Result<Finished> tensor_tile(Schedule& s, const Target& target, Decider& decider, BlockRef block, int threads) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  DotTiling tiling{
      {.s = s, .target = target, .decider = decider, .threads = threads, .block = block, .name = node->name}};
  FETTLE_TRY_VOID(tiling.look());
  if (tiling.product.of_matrices()) return matrix_tile(std::move(tiling));
  FETTLE_TRY_VOID(tiling.fit(1, tiling.product.lanes));
  FETTLE_TRY_VOID(tiling.lay_out_rows());
  FETTLE_TRY_VOID(tiling.widen_rows());
  FETTLE_TRY_VOID(tiling.decide());
  FETTLE_TRY_VOID(
      tiling.lay_out_panels(tiling.panel_map(tiling.tile.vectors * tiling.product.lanes, tiling.product.steps)));
  FETTLE_TRY_VOID(tiling.tile_loops());
  return std::move(tiling.made);
}

}  // namespace fettle
