#include "tune/space/minimal_filtering.h"

#include <algorithm>
#include <array>

#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tune/parts/threads.h"
#include "tune/space/rules/register_tiling.h"

namespace fettle {
namespace {

constexpr const char* kScopeLocal = "local";  // of one thread of a GPU

using Loops = std::vector<LoopRef>;

// One run of the rule.
struct Filtering {
  RuleContext& ctx;
  MinimalFiltering parts;
  std::string last;  // the block that writes the output
  BlockStructure structure;
  int64_t lanes = 1;
  bool threads = false;  // of a GPU: no vectors

  static Result<Filtering> of(RuleContext& ctx, const MinimalFiltering& parts);
  Schedule& schedule() const { return ctx.schedule; }
  Result<BlockRef> block(const std::string& name) const { return get_block(schedule(), {.name = name}); }
  Result<size_t> loop_over(size_t dimension) const;
  Result<int64_t> rows() const;
  Result<> to_vector(LoopRef loop) const;
  Result<> in_registers(BlockRef block, size_t vector, std::array<size_t, 2> unrolled) const;
  Result<Loops> pixels(const IntRef& height, Loops& around);
  Result<Loops> inputs(size_t shared, LoopRef strip);
  Result<> weights();
  Result<> run();
};

// The loop of the last block that walks through a dimension of the output.
Result<size_t> Filtering::loop_over(size_t dimension) const {
  for (size_t i = 0; i < structure.n_iters(); ++i)
    if (structure.store.dimension_of(structure.vars[i]) == static_cast<int>(dimension)) return i;
  return fail(ErrorCode::E230, last + " writes the output in another shape");
}

Result<> unroll_all(Schedule& s, const Loops& loops) {
  for (const LoopRef& loop : loops) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  return {};
}

// The last three loops of a transform, of which `vector` fills vectors and the others are unrolled, in this order. What
// it makes is in registers, if they hold it; else in a small buffer, as the compiler would have it anyway.
Result<> Filtering::in_registers(BlockRef block, size_t vector, std::array<size_t, 2> unrolled) const {
  Schedule& s = schedule();
  FETTLE_TRY(const Loops all, loops_of_block(ctx, block));
  if (all.size() < 3) return fail(ErrorCode::E230, "a transform has other loops");
  if (threads) {  // of one channel there is no loop
    FETTLE_TRY_VOID(unroll_all(s, {all.end() - 2, all.end()}));
    return set_scope(s, {.block = block, .scope = kScopeLocal});
  }
  const Loops own(all.end() - 3, all.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = {own[unrolled[0]], own[unrolled[1]], own[vector]}}));
  FETTLE_TRY_VOID(unroll_all(s, {own[unrolled[0]], own[unrolled[1]]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = own[vector]}));
  FETTLE_TRY(const int64_t first, loop_extent(ctx, own[unrolled[0]]));
  FETTLE_TRY(const int64_t second, loop_extent(ctx, own[unrolled[1]]));
  if (first * second > ctx.target->vector_registers) return {};
  return set_scope(s, {.block = block, .scope = kScopeRegister});
}

// The outputs: for …, p0: for p1, q, o0: m x m pixels of one vector of channels, each from its column. `around`: the
// loops around one strip.
Result<Loops> Filtering::pixels(const IntRef& height, Loops& around) {
  Schedule& s = schedule();
  const int64_t m = parts.outputs;
  FETTLE_TRY(const BlockRef out, block(last));
  FETTLE_TRY(const Loops loops, loops_of_block(ctx, out));
  FETTLE_TRY(const size_t h_loop, loop_over(parts.height));
  FETTLE_TRY(const size_t w_loop, loop_over(parts.width));
  FETTLE_TRY(const size_t o_loop, loop_over(structure.store.indices.size() - 1));
  FETTLE_TRY(const Loops h, split(s, {.loop = loops[h_loop], .factors = {kInfer, height, m}, .tail = Tail::kMask}));
  FETTLE_TRY(const Loops w, split(s, {.loop = loops[w_loop], .factors = {kInfer, m}, .tail = Tail::kMask}));
  FETTLE_TRY(const Loops o, split(s, {.loop = loops[o_loop], .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != h_loop && i != w_loop && i != o_loop) around.push_back(loops[i]);  // images
  around.push_back(h[0]);
  Loops order = around;
  order.insert(order.end(), {h[1], w[0], o[0], h[2], w[1], o[1]});
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY_VOID(unroll_all(s, {h[2], w[1]}));
  FETTLE_TRY_VOID(to_vector(o[1]));
  FETTLE_TRY(const BlockRef columns, block(parts.columns));
  FETTLE_TRY_VOID(compute_at(s, {.block = columns, .loop = o[0], .preserve_unit_loops = false}));
  FETTLE_TRY_VOID(in_registers(columns, 0, {2, 1}));  // o a y
  return Loops{h[1], w[0], o[0]};
}

// The inputs: a tile of one vector of channels, its rows transformed in registers, then its columns.
Result<Loops> Filtering::inputs(size_t shared, LoopRef strip) {
  Schedule& s = schedule();
  FETTLE_TRY(const BlockRef tiles, block(parts.tiles));
  if (shared > 0) FETTLE_TRY_VOID(compute_at(s, {.block = tiles, .loop = strip}));
  FETTLE_TRY(const Loops t, loops_of_block(ctx, tiles));  // … | n p q c x y
  if (t.size() < shared + 5) return fail(ErrorCode::E230, parts.tiles + " has other loops");
  const LoopRef c = t[t.size() - 3], x = t[t.size() - 2], y = t[t.size() - 1];
  FETTLE_TRY(const Loops channels, split(s, {.loop = c, .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  Loops order(t.begin() + static_cast<std::ptrdiff_t>(shared), t.end() - 3);
  const Loops outer = order;
  order.insert(order.end(), {channels[0], x, y, channels[1]});
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY(const BlockRef rows, block(parts.rows));
  FETTLE_TRY_VOID(compute_at(s, {.block = rows, .loop = channels[0], .preserve_unit_loops = false}));
  FETTLE_TRY_VOID(unroll_all(s, {x, y}));
  FETTLE_TRY_VOID(to_vector(channels[1]));
  FETTLE_TRY_VOID(in_registers(rows, 0, {2, 1}));  // c x j
  Loops own = outer;
  own.push_back(channels[0]);
  return own;
}

// Rows of tiles.
Result<int64_t> Filtering::rows() const {
  FETTLE_TRY(const size_t h_loop, loop_over(parts.height));
  return (structure.extents[h_loop] + parts.outputs - 1) / parts.outputs;
}

// What fills vectors; on a GPU it is one element, and stays.
Result<> Filtering::to_vector(LoopRef loop) const {
  return threads ? Result<>() : vectorize(schedule(), {.loop = loop});
}

// Once, when the program is compiled: all points of one filter at a time, so that rows of the matrices are constants.
Result<> Filtering::weights() {
  Schedule& s = schedule();
  FETTLE_TRY(const BlockRef weights, block(parts.weights));
  FETTLE_TRY(const Loops l, loops_of_block(ctx, weights));  // x y c o kh kw
  if (l.size() != 6) return fail(ErrorCode::E230, parts.weights + " has other loops");
  FETTLE_TRY_VOID(reorder(s, {.loops = {l[2], l[3], l[0], l[1], l[4], l[5]}}));
  return unroll_all(s, {l[0], l[1], l[4], l[5]});
}

Result<> Filtering::run() {
  Schedule& s = schedule();
  FETTLE_TRY(const int64_t rows, this->rows());
  // 0: no strips. What does not divide the rows would leave conditions on the products.
  std::vector<int64_t> heights = {0};
  for (int64_t height = 1; height < rows; ++height)
    if (rows % height == 0) heights.push_back(height);
  s.set_address_prefix("minimal_filtering/" + parts.block);
  FETTLE_TRY(const int64_t height, choose(ctx, "strip", heights));
  FETTLE_TRY_VOID(weights());
  FETTLE_TRY(const BlockRef product, block(parts.product));
  Loops around;
  if (height == 0) {
    FETTLE_TRY(const Loops outer, pixels(rows, around));
    FETTLE_TRY_VOID(tile_in_registers(ctx, product, 0));
    FETTLE_TRY(const Loops tiles, inputs(0, {}));
    FETTLE_TRY_VOID(parallelize(ctx.schedule, tiles, {.threads = ctx.threads}));
    Loops all = around;
    all.insert(all.end(), outer.begin(), outer.end());
    FETTLE_TRY_VOID(parallelize(ctx.schedule, all, {.threads = ctx.threads}));
  } else {
    FETTLE_TRY_VOID(pixels(height, around).map([](const Loops&) {}));
    FETTLE_TRY_VOID(compute_at(s, {.block = product, .loop = around.back()}));
    FETTLE_TRY_VOID(inputs(around.size(), around.back()).map([](const Loops&) {}));
    FETTLE_TRY_VOID(tile_in_registers(ctx, product, around.size()));
    FETTLE_TRY_VOID(parallelize(ctx.schedule, around, {.threads = ctx.threads}));
  }
  for (const std::string& name : {parts.weights, parts.rows, parts.tiles, parts.columns, last}) ctx.done.insert(name);
  return {};
}

Result<Filtering> Filtering::of(RuleContext& ctx, const MinimalFiltering& parts) {
  Filtering filtering{.ctx = ctx, .parts = parts};
  const Func func = ctx.schedule.func();
  const BlockNode* columns = find_block(func->body, parts.columns);
  if (!columns || columns->writes.size() != 1) return fail(ErrorCode::E230, parts.columns);
  const auto readers = consumers_of(func.root(), columns->writes[0].buffer.get());
  if (readers.size() != 1) return fail(ErrorCode::E230, parts.columns + " has other readers");
  filtering.last = readers.front()->name;
  const auto structure = block_structure(func, *readers.front());
  if (!structure) return fail(ErrorCode::E230, filtering.last);
  filtering.structure = *structure;
  filtering.threads = ctx.target->has_threads();
  filtering.lanes = filtering.threads ? 1 : ctx.lanes(structure->store.buffer->dtype);
  return filtering;
}

}  // namespace

Result<> filter_in_tiles(RuleContext& ctx) {
  if (!ctx.filtering) return {};
  FETTLE_TRY(Filtering filtering, Filtering::of(ctx, *ctx.filtering));
  return filtering.run();
}

Result<PlacedTransforms> place_transforms(RuleContext& ctx, const MinimalFiltering& parts,
                                          std::optional<IntRef> strip) {
  FETTLE_TRY(Filtering filtering, Filtering::of(ctx, parts));
  PlacedTransforms placed{.last = filtering.last};
  FETTLE_TRY_VOID(filtering.weights());
  FETTLE_TRY(const int64_t rows, filtering.rows());
  Loops around;
  FETTLE_TRY(const Loops tiles, filtering.pixels(strip.value_or(rows), around));
  placed.outputs = around;
  placed.outputs.insert(placed.outputs.end(), tiles.begin(), tiles.end());
  if (!strip) {
    FETTLE_TRY(placed.inputs, filtering.inputs(0, {}));
    return placed;
  }
  FETTLE_TRY(const BlockRef product, filtering.block(parts.product));
  FETTLE_TRY_VOID(compute_at(ctx.schedule, {.block = product, .loop = around.back()}));
  FETTLE_TRY_VOID(filtering.inputs(around.size(), around.back()));
  placed.around = std::move(around);
  return placed;
}

}  // namespace fettle
