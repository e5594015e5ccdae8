#include "tune/parts/tensor_tile.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "cost/predict/machine_costs.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/inline.h"
#include "tune/parts/loops.h"
#include "tune/parts/preferences.h"
#include "tune/parts/tensor_product.h"
#include "tune/parts/threads.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// One run.
struct TensorTiling {
  Schedule& s;
  const Target& target;
  Decider& decider;
  int threads;
  BlockRef block;
  std::string name;
  Finished made = {};
  BlockStructure structure;
  TensorProduct product;
  std::optional<size_t> row;           // iterator of the rows of a tile
  std::vector<size_t> batch, outside;  // other spatial iterators: B depends on them, or not
  std::vector<size_t> reduce;          // but for the depth, in the order of their loops
  Tile tile;
  bool rows_outside = false;      // row tiles outside of column panels
  std::optional<BlockRef> unpad;  // copies the output without its padding

  const AccessPattern& a() const { return structure.loads[product.a]; }
  const AccessPattern& b() const { return structure.loads[product.b]; }
  int64_t extent(size_t iter) const { return structure.extents[iter]; }

  Result<> look();
  Result<> finish(BlockRef of);
  Result<> fit();
  Result<> lay_out_rows();
  Result<> pack();
  Result<> decide();
  Result<> tile_loops();
};

// What the block is now.
Result<> TensorTiling::look() {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto found = block_structure(s.func(), *node, Extents::kOpen);
  const auto fits = found ? tensor_product(*node, *found, target) : std::nullopt;
  if (!fits) return fail(ErrorCode::E230, "no tensor intrinsic fits " + name);
  structure = *found;
  product = *fits;
  row.reset();
  batch.clear();
  outside.clear();
  reduce.clear();
  for (size_t i = 0; i < structure.n_iters(); ++i) {
    if (i == product.vector || i == product.depth) continue;
    if (structure.reduce[i])
      reduce.push_back(i);
    else
      (b().touches(i) ? batch : outside).push_back(i);
  }
  // Rows: the innermost in memory, if it is long enough; they share B.
  for (size_t i : outside)
    if (!row || (extent(i) >= 4) > (extent(*row) >= 4) ||
        ((extent(i) >= 4) == (extent(*row) >= 4) && structure.store.strides[i] < structure.store.strides[*row]))
      row = i;
  if (row) std::erase(outside, *row);
  std::ranges::stable_sort(reduce, [&](size_t x, size_t y) {
    const auto key = [&](size_t i) {
      return a().strides[i] == AccessPattern::kIrregular ? INT64_MAX : std::abs(a().strides[i]);
    };
    return key(x) > key(y);
  });
  return {};
}

Result<> TensorTiling::finish(BlockRef of) {
  FETTLE_TRY(const BlockNode* node, block_node(s, of));
  made.push_back(node->name);
  return {};
}

// Pads with zeros what the intrinsic does not divide, windows of convolutions as rows of a matrix.
Result<> TensorTiling::fit() {
  if (product.divides(structure)) return {};
  if (!product.a_is_plain) {
    FETTLE_TRY(const int64_t read, read_index_of(s, block, a().buffer));
    FETTLE_TRY_VOID(reindex(s, {.block = block, .buffer_index = read}).map([](BlockRef) {}));
    FETTLE_TRY_VOID(look());
  }
  const bool constant = is_constant(s.func(), b().buffer);
  if (!product.b_is_plain) {
    FETTLE_TRY(const int64_t read, read_index_of(s, block, b().buffer));
    FETTLE_TRY(const BlockRef copy, reindex(s, {.block = block, .buffer_index = read}));
    if (constant) FETTLE_TRY_VOID(finish(copy));
    FETTLE_TRY_VOID(look());
  }
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  std::vector<int64_t> padding;
  for (const IterVar& iter : node->iters)
    padding.push_back(iter.binding.get() == structure.vars[product.vector].get()  ? product.lanes
                      : iter.binding.get() == structure.vars[product.depth].get() ? product.steps
                                                                                  : 1);
  const Buffer panel = b().buffer;
  const bool output = extent(product.vector) % product.lanes != 0;
  FETTLE_TRY(const std::vector<BlockRef> copies, pad_einsum(s, {.block = block, .padding = padding}));
  for (const BlockRef copy : copies) {
    FETTLE_TRY(const BlockNode* padded, block_node(s, copy));
    if (constant && padded->reads.front().buffer == panel) made.push_back(padded->name);
  }
  if (output) unpad = copies.back();
  return look();
}

// The rows' operand with the depth innermost.
Result<> TensorTiling::lay_out_rows() {
  const auto depth_dim = static_cast<size_t>(a().dimension_of(structure.vars[product.depth]));
  if (a().strides[product.depth] == 1 && depth_dim + 1 == a().indices.size()) return {};
  FETTLE_TRY(int64_t read, read_index_of(s, block, a().buffer));
  IndexMap map;
  for (size_t d = 0; d < a().indices.size(); ++d) map.inputs.push_back(make_var("d" + std::to_string(d)));
  for (size_t d = 0; d < a().indices.size(); ++d)
    if (d != depth_dim) map.outputs.push_back(Expr(map.inputs[d]));
  map.outputs.push_back(Expr(map.inputs[depth_dim]));
  if (s.func().find_param(a().buffer.get())) {
    FETTLE_TRY_VOID(cache_read(s, {.block = block, .read_index = read}).map([](BlockRef) {}));
    FETTLE_TRY_VOID(look());
    FETTLE_TRY(read, read_index_of(s, block, a().buffer));
  }
  FETTLE_TRY_VOID(
      transform_layout(s, {.block = block, .buffer_index = read, .buffer_index_type = "read", .index_map = map}));
  return look();
}

Result<> TensorTiling::decide() {
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
    if (const int64_t stride = a().strides[*row]; stride != AccessPattern::kIrregular)
      p.row_stride_bytes = std::abs(stride) * a().buffer->dtype.element_bytes();
  }
  std::vector<Tile> tiles = ranked_tiles(p, target);
  // Sequences of instructions need registers of their own.
  if (product.intrinsic->instructions > 1)
    std::erase_if(tiles, [&](const Tile& t) {
      return t.vectors > 1 && t.rows * t.vectors + 2 * t.vectors + 3 > target.vector_registers;
    });
  std::erase_if(tiles, [](const Tile& t) { return t.second_rows > 1; });
  const auto hides_latency = [](const Tile& t) { return t.rows * t.vectors >= preferences::kSumsOfDotProducts; };
  if (std::ranges::any_of(tiles, hides_latency)) std::erase_if(tiles, std::not_fn(hides_latency));
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

// (batch…, k…, j) in any order → (batch…, j // width, k…, depth // steps, j % width, depth % steps)
IndexMap panel_map(const TensorTiling& t, int64_t width) {
  IndexMap map;
  std::vector<Expr> fixed, batch(t.structure.n_iters());
  Expr vector, depth;
  for (const Expr& index : t.b().indices) {
    const Var var = make_var("d" + std::to_string(map.inputs.size()));
    map.inputs.push_back(var);
    const auto at = std::ranges::find_if(t.structure.vars, [&](const Var& v) { return v.get() == index.get(); });
    const auto iter = static_cast<size_t>(at - t.structure.vars.begin());
    if (iter == t.structure.n_iters())
      fixed.push_back(Expr(var));
    else if (iter == t.product.vector)
      vector = Expr(var);
    else if (iter == t.product.depth)
      depth = Expr(var);
    else
      batch[iter] = Expr(var);
  }
  map.outputs = fixed;
  for (size_t i : t.batch)
    if (batch[i]) map.outputs.push_back(batch[i]);
  map.outputs.push_back(floordiv(vector, Expr(width)));
  for (size_t i : t.reduce)
    if (batch[i]) map.outputs.push_back(batch[i]);
  map.outputs.push_back(floordiv(depth, Expr(t.product.steps)));
  map.outputs.push_back(floormod(vector, Expr(width)));
  map.outputs.push_back(floormod(depth, Expr(t.product.steps)));
  return map;
}

Result<> TensorTiling::pack() {
  const Buffer panel = b().buffer;
  const IndexMap map = panel_map(*this, tile.vectors * product.lanes);
  if (!s.func().find_param(panel.get())) {  // padded just now, or made by another block: it may lie as is best
    FETTLE_TRY(const int64_t read, read_index_of(s, block, panel));
    return transform_layout(s, {.block = block, .buffer_index = read, .buffer_index_type = "read", .index_map = map});
  }
  FETTLE_TRY(const BlockRef copy, pack_panels(s, block, panel, map));
  if (is_constant(s.func(), panel)) {
    FETTLE_TRY(const BlockNode* node, block_node(s, copy));
    made.insert(made.end(), {node->name, node->name + "_pad"});
  }
  return {};
}

Result<> TensorTiling::tile_loops() {
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = block, .write_index = 0, .scope = kScopeRegister}));
  inline_consumers(s, unpad ? *unpad : back);
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));

  FETTLE_TRY(const Loops columns, cut_columns(s, loops[product.vector], tile.vectors, product.lanes, false));
  FETTLE_TRY(const Loops depth, split(s, {.loop = loops[product.depth], .factors = {kInfer, product.steps}}));
  TileLoops nest{.panels = {columns[0]}, .rows_outside = rows_outside};
  Loops inner, steps;
  for (size_t i : batch) nest.batch.push_back(loops[i]);
  for (size_t i : outside) nest.outside.push_back(loops[i]);
  if (row) {
    FETTLE_TRY(const Loops rows, cut_rows(s, loops[*row], tile.rows, false));
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
  FETTLE_TRY_VOID(begin_sums(s, block, steps.front()));
  FETTLE_TRY(const BlockRef unit,
             tensorize(s, {.target = columns[2], .intrinsic = std::string(product.intrinsic->name)}));
  FETTLE_TRY_VOID(finish(unit));
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
  TensorTiling tiling{
      .s = s, .target = target, .decider = decider, .threads = threads, .block = block, .name = node->name};
  FETTLE_TRY_VOID(tiling.look());
  FETTLE_TRY_VOID(tiling.fit());
  FETTLE_TRY_VOID(tiling.lay_out_rows());
  FETTLE_TRY_VOID(tiling.decide());
  FETTLE_TRY_VOID(tiling.pack());
  FETTLE_TRY_VOID(tiling.tile_loops());
  return std::move(tiling.made);
}

}  // namespace fettle
