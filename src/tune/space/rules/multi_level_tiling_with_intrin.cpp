// Register tiling whose every step is a tensor intrinsic: MetaSchedule's MultiLevelTilingWithIntrin (Shao et al.,
// Tensor Program Optimization with Probabilistic Programs, 2022, 3.2), with packing and padding found from the block.
//
//   for i: for j: for k: C[i, j] += i32(A[i, k]) * i32(B[k, j])     (B constant)
//   →
//   A', B' = A, B padded with zeros to multiples of the intrinsic's steps and lanes, where they are not
//   pack B' into panels [j / width][k / steps][width][steps]
//   for j0: for i0:
//     for k0: for i1 (unrolled): for jv (unrolled):
//       T[i1, jv] += A'[i, k0] · B'[j0, k0, jv]      by the intrinsic, on registers
//     for i1, jv: C[…] = f(T[…])        f: what elementwise consumers did
//
// Matrix products, batched ones, and convolutions: the latter directly where the channels lie together and divide, else
// through a copy of their windows (im2col).

#include <algorithm>
#include <functional>
#include <optional>

#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_consumers.h"
#include "schedule/primitives/pad_einsum.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tune/space/rules/rules.h"
#include "tune/space/tensor_product.h"
#include "tune/space/tiling.h"
#include "tune/space/worth_threads.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

// One run of the rule.
struct TensorTiling {
  RuleContext& ctx;
  BlockRef block;
  std::string name;
  BlockStructure structure;
  TensorProduct product;
  std::optional<size_t> row;           // iterator of the rows of a tile
  std::vector<size_t> batch, outside;  // other spatial iterators: B depends on them, or not
  std::vector<size_t> reduce;          // but for the depth, in the order of their loops
  Tile tile;
  bool rows_outside = false;      // row tiles outside of column panels
  std::optional<BlockRef> unpad;  // copies the output without its padding

  Schedule& schedule() const { return ctx.schedule; }
  const AccessPattern& a() const { return structure.loads[product.a]; }
  const AccessPattern& b() const { return structure.loads[product.b]; }
  int64_t extent(size_t iter) const { return structure.extents[iter]; }

  Result<> look();
  Result<int64_t> read_of(const Buffer& buffer) const;
  Result<> fit();
  Result<> lay_out_rows();
  Result<> pack();
  Result<> decide();
  Result<> nest();
};

// What the block is now.
Result<> TensorTiling::look() {
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  const auto found = block_structure(schedule().func(), *node);
  const auto fits = found ? tensor_product(*node, *found, *ctx.target) : std::nullopt;
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

Result<int64_t> TensorTiling::read_of(const Buffer& buffer) const {
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  for (size_t r = 0; r < node->reads.size(); ++r)
    if (node->reads[r].buffer == buffer) return static_cast<int64_t>(r);
  return fail(ErrorCode::E220, buffer->name);
}

// Pads with zeros what the intrinsic does not divide, windows of convolutions as rows of a matrix.
Result<> TensorTiling::fit() {
  if (product.divides(structure)) return {};
  Schedule& s = schedule();
  if (!product.a_is_plain) {
    FETTLE_TRY(const int64_t read, read_of(a().buffer));
    FETTLE_TRY_VOID(reindex(s, {.block = block, .buffer_index = read}).map([](BlockRef) {}));
    FETTLE_TRY_VOID(look());
  }
  const bool constant = is_constant(s.func(), b().buffer);
  if (!product.b_is_plain) {
    FETTLE_TRY(const int64_t read, read_of(b().buffer));
    FETTLE_TRY(const BlockRef copy, reindex(s, {.block = block, .buffer_index = read}));
    FETTLE_TRY(const BlockNode* made, block_node(ctx, copy));
    if (constant) ctx.done.insert(made->name);
    FETTLE_TRY_VOID(look());
  }
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  std::vector<int64_t> padding;
  for (const IterVar& iter : node->iters)
    padding.push_back(iter.binding.get() == structure.vars[product.vector].get()  ? product.lanes
                      : iter.binding.get() == structure.vars[product.depth].get() ? product.steps
                                                                                  : 1);
  const Buffer panel = b().buffer;
  const bool output = extent(product.vector) % product.lanes != 0;
  FETTLE_TRY(const std::vector<BlockRef> copies, pad_einsum(s, {.block = block, .padding = padding}));
  for (const BlockRef copy : copies) {
    FETTLE_TRY(const BlockNode* made, block_node(ctx, copy));
    if (constant && made->reads.front().buffer == panel) ctx.done.insert(made->name);
  }
  if (output) unpad = copies.back();
  return look();
}

// The rows' operand with the depth innermost.
Result<> TensorTiling::lay_out_rows() {
  const auto depth_dim = static_cast<size_t>(a().dimension_of(structure.vars[product.depth]));
  if (a().strides[product.depth] == 1 && depth_dim + 1 == a().indices.size()) return {};
  Schedule& s = schedule();
  FETTLE_TRY(int64_t read, read_of(a().buffer));
  IndexMap map;
  for (size_t d = 0; d < a().indices.size(); ++d) map.inputs.push_back(make_var("d" + std::to_string(d)));
  for (size_t d = 0; d < a().indices.size(); ++d)
    if (d != depth_dim) map.outputs.push_back(Expr(map.inputs[d]));
  map.outputs.push_back(Expr(map.inputs[depth_dim]));
  if (s.func().find_param(a().buffer.get())) {
    FETTLE_TRY_VOID(cache_read(s, {.block = block, .read_index = read}).map([](BlockRef) {}));
    FETTLE_TRY_VOID(look());
    FETTLE_TRY(read, read_of(a().buffer));
  }
  FETTLE_TRY_VOID(
      transform_layout(s, {.block = block, .buffer_index = read, .buffer_index_type = "read", .index_map = map}));
  return look();
}

Result<> TensorTiling::decide() {
  TileProblem p;
  p.lanes = product.lanes;
  p.vector_extent = extent(product.vector);
  p.threads = ctx.threads;
  p.steps = extent(product.depth) / product.steps;
  for (size_t i : reduce) p.steps *= extent(i);
  for (size_t i : batch) p.repeats *= extent(i);
  for (size_t i : outside) p.repeats *= extent(i);
  if (row) {
    p.row_extent = extent(*row);
    if (const int64_t stride = a().strides[*row]; stride != AccessPattern::kIrregular)
      p.row_stride_bytes = std::abs(stride) * a().buffer->dtype.element_bytes();
  }
  std::vector<Tile> tiles = ranked_tiles(p, *ctx.target);
  // Sequences of instructions need registers of their own.
  if (product.intrinsic->instructions > 1)
    std::erase_if(tiles, [&](const Tile& t) {
      return t.vectors > 1 && t.rows * t.vectors + 2 * t.vectors + 3 > ctx.target->vector_registers;
    });
  std::erase_if(tiles, [](const Tile& t) { return t.second_rows > 1; });
  // Two dot products start in a cycle and take five: fewer sums than that wait for each other.
  const auto hides_latency = [](const Tile& t) { return t.rows * t.vectors >= 12; };
  if (std::ranges::any_of(tiles, hides_latency)) std::erase_if(tiles, std::not_fn(hides_latency));
  if (tiles.empty()) return fail(ErrorCode::E230, "no register tile fits " + name);
  if (tiles.size() > 24) tiles.resize(24);
  std::vector<int64_t> codes;
  std::vector<double> weights;
  for (const Tile& t : tiles) {
    codes.push_back(t.code());
    weights.push_back(tiles.front().cost / t.cost);
  }
  FETTLE_TRY(const int64_t code, choose(ctx, "tile", codes, 0, weights));
  tile = {.rows = code / 100 % 100, .vectors = code % 100};

  // Where all of B stays in L2, what is written need not drive the rows' operand out of it: each row tile is read once.
  int64_t read = extent(product.vector) * extent(product.depth) * b().buffer->dtype.element_bytes();
  for (size_t i : reduce) read *= extent(i);
  int64_t written = structure.store.buffer->dtype.element_bytes() * extent(product.vector);
  for (size_t i : outside) written *= extent(i);
  if (row) written *= extent(*row);
  const int64_t l2 = ctx.target->caches.size() > 1 ? ctx.target->caches[1].size_bytes : 512 << 10;
  FETTLE_TRY(const int64_t outside_first, choose(ctx, "rows_outside", {0, 1}, 2 * read <= l2 && written > l2 ? 1 : 0));
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
  Schedule& s = schedule();
  const Buffer panel = b().buffer;
  const IndexMap map = panel_map(*this, tile.vectors * product.lanes);
  FETTLE_TRY(const int64_t read, read_of(panel));
  if (!s.func().find_param(panel.get()))  // padded just now, or made by another block: it may lie as is best
    return transform_layout(s, {.block = block, .buffer_index = read, .buffer_index_type = "read", .index_map = map});
  FETTLE_TRY(const BlockRef copy, cache_read(s, {.block = block, .read_index = read}));
  FETTLE_TRY_VOID(transform_layout(s, {.block = copy, .index_map = map}));
  if (is_constant(s.func(), panel)) {
    FETTLE_TRY(const BlockNode* made, block_node(ctx, copy));
    ctx.done.insert(made->name);
    ctx.done.insert(made->name + "_pad");
  }
  return {};
}

// Consumers that work element by element on what the block writes join its write-back.
void inline_consumers(RuleContext& ctx, BlockRef back) {
  for (int depth = 0; depth < 16; ++depth) {
    Schedule trial = ctx.schedule;
    auto consumers = get_consumers(trial, {.block = back});
    if (!consumers || consumers->size() != 1) return;
    if (!reverse_compute_inline(trial, {.block = consumers->front()})) return;
    ctx.schedule = std::move(trial);
  }
}

Result<> TensorTiling::nest() {
  Schedule& s = schedule();
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = block, .write_index = 0, .scope = kScopeRegister}));
  inline_consumers(ctx, unpad ? *unpad : back);
  FETTLE_TRY(const Loops loops, loops_of_block(ctx, block));

  FETTLE_TRY(const Loops columns, split(s, {.loop = loops[product.vector],
                                            .factors = {kInfer, tile.vectors, product.lanes},
                                            .tail = Tail::kPartition}));
  FETTLE_TRY(const Loops depth, split(s, {.loop = loops[product.depth], .factors = {kInfer, product.steps}}));
  Loops outer, rows, steps;
  for (size_t i : batch) outer.push_back(loops[i]);
  if (!rows_outside) outer.push_back(columns[0]);
  for (size_t i : outside) outer.push_back(loops[i]);
  if (row) {
    FETTLE_TRY(rows, split(s, {.loop = loops[*row], .factors = {kInfer, tile.rows}, .tail = Tail::kBalance}));
    outer.push_back(rows[0]);
  }
  if (rows_outside) outer.push_back(columns[0]);
  for (size_t i : reduce) steps.push_back(loops[i]);
  steps.push_back(depth[0]);
  Loops order = outer;
  order.insert(order.end(), steps.begin(), steps.end());
  if (row) order.push_back(rows[1]);
  order.insert(order.end(), {columns[1], columns[2], depth[1]});
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  if (row) FETTLE_TRY_VOID(unroll(s, {.loop = rows[1]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = columns[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = columns[2]}));

  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = outer.back(), .preserve_unit_loops = false}));
  FETTLE_TRY(const BlockNode* written, block_node(ctx, back));
  ctx.done.insert(written->name);
  FETTLE_TRY_VOID(vectorize_copy(ctx, back, outer.size(), product.lanes));
  if (unpad) {  // tile by tile, while it is in L1
    FETTLE_TRY_VOID(reverse_compute_at(s, {.block = *unpad, .loop = outer.back(), .preserve_unit_loops = false}));
    FETTLE_TRY(const BlockNode* copied, block_node(ctx, *unpad));
    ctx.done.insert(copied->name);
    FETTLE_TRY_VOID(vectorize_copy(ctx, *unpad, outer.size(), product.lanes));
  }
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = steps.front()}).map([](BlockRef) {}));
  FETTLE_TRY(const BlockRef unit,
             tensorize(s, {.target = columns[2], .intrinsic = std::string(product.intrinsic->name)}));
  FETTLE_TRY(const BlockNode* tile_block, block_node(ctx, unit));
  ctx.done.insert({name, name + "_init", tile_block->name});
  const int64_t instructions = structure.points() / (product.lanes * product.steps);
  FETTLE_TRY(const bool dealt_out, worth_threads(ctx, kMultiplyAddNs * static_cast<double>(instructions)));
  if (dealt_out) FETTLE_TRY_VOID(parallelize(ctx, outer));

  // What comes from beyond L2 is asked for while the panel before is at work.
  const auto bytes = [&](int64_t width) {
    int64_t n = width * extent(product.depth) * b().buffer->dtype.element_bytes();
    for (size_t i : reduce) n *= extent(i);
    return n;
  };
  if (rows_outside) return {};
  const int64_t l2 = ctx.target->caches.size() > 1 ? ctx.target->caches[1].size_bytes : 512 << 10;
  const bool far = 2 * bytes(extent(product.vector)) > l2 && 2 * bytes(tile.vectors * product.lanes) <= l2;
  FETTLE_TRY(const int64_t ahead, choose(ctx, "prefetch", {0, 1}, far ? 1 : 0));
  if (ahead == 0 || !schedule().loop(columns[0])) return {};
  return annotate(s, {.target = columns[0], .key = kPrefetchKey, .value = 1});
}

bool applies(const RuleContext& ctx, const BlockNode& block) {
  if (!block.init) return false;
  const auto structure = block_structure(ctx.schedule.func(), block);
  return structure && tensor_product(block, *structure, *ctx.target);
}

Result<> apply(RuleContext& ctx, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  TensorTiling tiling{.ctx = ctx, .block = block, .name = node->name};
  ctx.schedule.set_address_prefix("multi_level_tiling_with_intrin/" + tiling.name);
  FETTLE_TRY_VOID(tiling.look());
  FETTLE_TRY_VOID(tiling.fit());
  FETTLE_TRY_VOID(tiling.lay_out_rows());
  FETTLE_TRY_VOID(tiling.decide());
  FETTLE_TRY_VOID(tiling.pack());
  return tiling.nest();
}

}  // namespace

constinit const Rule multi_level_tiling_with_intrin_def = {"multi_level_tiling_with_intrin", applies, apply};

}  // namespace fettle
