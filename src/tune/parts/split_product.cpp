#include "tune/parts/split_product.h"

#include <algorithm>

#include "arith/linear.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/reformulation.h"
#include "target/caches.h"
#include "target/tensor_intrinsic.h"
#include "tune/parts/copies.h"
#include "tune/parts/inline.h"
#include "tune/parts/preferences.h"
#include "tune/parts/structure.h"
#include "tune/parts/threads.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// The unit's tiles: rows and columns of sums, steps, and steps that lie side by side.
constexpr int64_t kTile = 16, kSteps = 32, kPair = 2, kB16 = 2;  // the last in bytes
constexpr const char *kProduct = "amx_bf16", *kZero = "amx_zero_f32", *kStore = "amx_store_f32", *kTileScope = "tile";
// Rows of a register tile of what is computed as it was written.
constexpr int64_t kDoubtfulRows = 8;
// Tiles of rows that read a panel of all sums while it is near.
constexpr int64_t kTilesOfAllSums = 4;
// Of the product: what makes tiles worth filling. Steps of a sum: beyond, chains of f32 err more than those of blocks.
constexpr int64_t kFewRows = 8, kFewColumns = 16, kFewSteps = 32, kLongestSum = 512;

bool is_large(const BlockStructure& block, const Func& func) {
  if (!block.multiplies_two_loads || block.loads.size() != 2 || block.store.buffer->dtype != kF32) return false;
  const bool first = is_constant(func, block.loads[0].buffer);
  if (first == is_constant(func, block.loads[1].buffer)) return false;
  const AccessPattern& weights = block.loads[first ? 0 : 1];
  int64_t rows = 1, columns = 1, steps = 1;
  for (size_t i = 0; i < block.n_iters(); ++i) {
    if (block.open[i]) return false;
    int64_t& count = block.reduce[i] ? steps : weights.touches(i) ? columns : rows;
    count *= block.extents[i];
  }
  return rows >= kFewRows && columns >= kFewColumns && steps >= kFewSteps;
}

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// One run.
struct SplitTiling {
  Schedule& s;
  const Target& target;
  Decider& decider;
  const SplitParts& parts;
  int threads;
  Finished made = {};
  // The product's iterators: sums, outputs, inner steps, term, depth; its loops in that order.
  std::vector<Var> vars = {};
  std::vector<int64_t> extents = {};
  size_t n_sums = 0, n_spatial = 0, row = 0;
  int64_t n_parts = 0, n_chunks = 1;          // of the data; sums of which a result is the total
  bool sums_inside = false;                   // loops over sums are inside of those over tiles
  std::vector<Expr> data = {}, weights = {};  // indices of the parts
  int64_t rows = kTile, columns = kTile;      // of a register tile
  bool panels = false;                        // rows of the data are no windows
  bool by_rows = false;                       // loops over columns are inside of those over rows
  LoopRef panel = {};                         // the loop over panels of the weights, or of rows
  LoopRef tile = {};                          // the loop around a tile of the block at work
  size_t n_around = 0;                        // this and the loops around it
  size_t n_around_tile = 0;                   // the same of a tile of outputs
  Loops dealt_out = {};                       // its loops for threads

  // The parts of so many rows or columns, of one sum.
  int64_t bytes_of(int64_t width) const { return width * extents[depth()] * n_parts * kB16; }
  int64_t room() const { return room_in_l2(target); }
  size_t column() const { return n_spatial - 1; }
  size_t depth() const { return vars.size() - 1; }
  bool uses(const Expr& index, size_t iter) const { return uses_var(index, vars[iter].get()); }
  bool uses(const std::vector<Expr>& indices, size_t iter) const {
    return std::ranges::any_of(indices, [&](const Expr& index) { return uses(index, iter); });
  }
  Result<BlockRef> block(const std::string& name) const { return get_block(s, {.name = name}); }
  Result<> finish(BlockRef of);
  Result<> look();
  IndexMap data_map() const;
  IndexMap weights_map() const;
  Result<> lay_out();
  Result<int64_t> tiles_at_once(int64_t n, int64_t width);
  Result<> in_tiles(BlockRef of, Tail tail);
  Result<> tile_product();
  Result<> as_unit(BlockRef of, const char* intrinsic, size_t from_the_end);
  Result<> outputs();
  Result<> add_up_tile();
  Result<> deal_out();
  Result<> tile_of_outputs();
  Result<> split_data();
};

Result<> SplitTiling::finish(BlockRef of) {
  FETTLE_TRY(const BlockNode* node, block_node(s, of));
  made.push_back(node->name);
  return {};
}

Result<> SplitTiling::look() {
  FETTLE_TRY(const BlockRef product, block(parts.product));
  FETTLE_TRY(const BlockNode* node, block_node(s, product));
  const BlockNode* written = find_block(s.func()->body, parts.written);
  const StoreNode *store = single_store(*node), *result = written ? single_store(*written) : nullptr;
  if (!store || !result) return fail(ErrorCode::E230, parts.product + " is no product");
  for (const IterVar& iter : node->iters) {
    const int64_t* extent = as_int(iter.extent);
    if (!extent) return fail(ErrorCode::E230, parts.product + " has open extents");
    vars.push_back(iter.var);
    extents.push_back(*extent);
  }
  n_spatial = store->indices.size();
  n_sums = n_spatial - result->indices.size();
  walk(store->value, [&](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    if (load && load->buffer->name == parts.data) {
      data = load->indices;
      n_parts = as_int(load->buffer->shape[0]) ? *as_int(load->buffer->shape[0]) : 1;
    }
    if (load && load->buffer->name == parts.weights) weights = load->indices;
    return true;
  });
  if (data.empty() || weights.empty()) return fail(ErrorCode::E230, parts.product + " reads other buffers");
  const auto in_one = [&](const std::vector<Expr>& indices, size_t iter) {
    return std::ranges::count_if(indices, [&](const Expr& index) { return uses(index, iter); }) == 1;
  };
  if (!in_one(data, depth()) || !in_one(weights, depth()) || !in_one(weights, column()))
    return fail(ErrorCode::E230, parts.product + " reads other panels");
  for (size_t i = n_sums; i < column(); ++i)
    if (uses(data, i) && !uses(weights, i)) row = i;
  rows = extents[row] % (2 * kTile) == 0 ? 2 * kTile : kTile;
  columns = extents[column()] % (2 * kTile) == 0 ? 2 * kTile : kTile;
  panels = std::ranges::any_of(data, [&](const Expr& index) { return index.get() == vars[row].get(); });
  for (size_t i = 0; i < n_sums; ++i) n_chunks *= extents[i];
  if (n_sums == 0) return {};
  // A tile goes through all sums at once where the parts of several tiles of rows stay in the second-level cache then.
  const int64_t n_tiles = extents[row] / rows;
  const auto whole = [&](size_t iter, int64_t size) { return *as_int(written->iters[iter - n_sums].extent) >= size; };
  if (!whole(row, rows) || !whole(column(), columns)) return {};  // a tile of the total is then smaller
  const bool stay = bytes_of(rows) * n_chunks * std::min(n_tiles, kTilesOfAllSums) <= room();
  FETTLE_TRY(const int64_t chosen, decider.pick(s, {"sums_inside", {0, 1}, stay ? size_t{1} : size_t{0}}));
  sums_inside = chosen != 0;
  return {};
}

// (p, …, i, k) → (…, k // L, i // R, k % L // 32, p, i % R, k % 32), what one sum reads side by side (what a tile reads
// where sums are inside: …, i // R, k // L, …); of windows: (…, x % s, k // 32, p, x // s, k % 32), which move by s
IndexMap SplitTiling::data_map() const {
  IndexMap map;
  Expr of_row, of_depth;
  int64_t step = 1;
  for (const Expr& index : data) {
    const Var var = make_var("d" + std::to_string(map.inputs.size()));
    map.inputs.push_back(var);
    if (map.inputs.size() == 1) continue;  // the part
    if (uses(index, depth()))
      of_depth = var;
    else if (uses(index, row)) {
      of_row = var;
      step = std::max<int64_t>(1, linear_form(index).coeff_of(vars[row]));
    } else
      map.outputs.push_back(var);
  }
  if (step > 1) {
    map.outputs.push_back(floormod(of_row, step));
    of_row = floordiv(of_row, step);
  }
  if (panels) {
    const Expr sum = floordiv(of_depth, extents[depth()]), of_tile = floordiv(of_row, rows);
    for (const Expr& e : {sums_inside ? of_tile : sum, sums_inside ? sum : of_tile}) map.outputs.push_back(e);
    of_depth = floormod(of_depth, extents[depth()]);
  }
  map.outputs.push_back(floordiv(of_depth, kSteps));
  map.outputs.push_back(map.inputs[0]);
  map.outputs.push_back(panels ? floormod(of_row, rows) : of_row);
  map.outputs.push_back(floormod(of_depth, kSteps));
  return map;
}

// (q, …, k, j) → (batch…, k // L, j // S, taps…, k % L // 32, q, j % S // 16, k % 32 // 2, j % 16, k % 2), j // S first
// where sums are inside
IndexMap SplitTiling::weights_map() const {
  IndexMap map;
  std::vector<Expr> taps;
  Expr of_column, of_depth;
  for (const Expr& index : weights) {
    const Var var = make_var("d" + std::to_string(map.inputs.size()));
    map.inputs.push_back(var);
    if (map.inputs.size() == 1) continue;
    bool batch = false;
    for (size_t i = n_sums; i < column(); ++i) batch |= uses(index, i);
    if (uses(index, depth()))
      of_depth = var;
    else if (uses(index, column()))
      of_column = var;
    else if (batch)
      map.outputs.push_back(var);
    else
      taps.push_back(var);
  }
  const Expr sum = floordiv(of_depth, extents[depth()]), of_panel = floordiv(of_column, columns);
  for (const Expr& e : {sums_inside ? of_panel : sum, sums_inside ? sum : of_panel}) map.outputs.push_back(e);
  of_depth = floormod(of_depth, extents[depth()]);
  map.outputs.insert(map.outputs.end(), taps.begin(), taps.end());
  map.outputs.push_back(floordiv(of_depth, kSteps));
  map.outputs.push_back(map.inputs[0]);
  map.outputs.push_back(floordiv(floormod(of_column, columns), kTile));
  map.outputs.push_back(floordiv(floormod(of_depth, kSteps), kPair));
  map.outputs.push_back(floormod(of_column, kTile));
  map.outputs.push_back(floormod(of_depth, kPair));
  return map;
}

Result<> SplitTiling::lay_out() {
  for (const auto& [name, map] : {std::pair{parts.data, data_map()}, std::pair{parts.weights, weights_map()}}) {
    FETTLE_TRY(const BlockRef writer, block(name));
    FETTLE_TRY_VOID(transform_layout(s, {.block = writer, .index_map = map}));
  }
  return {};
}

// The tile that `from_the_end` loops of the block make up.
Result<> SplitTiling::as_unit(BlockRef of, const char* intrinsic, size_t from_the_end) {
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = of}));
  if (loops.size() < from_the_end) return fail(ErrorCode::E230, "a tile has other loops");
  FETTLE_TRY(const BlockRef unit, tensorize(s, {.target = loops[loops.size() - from_the_end], .intrinsic = intrinsic}));
  return finish(unit);
}

// Of `n` tiles of so many rows or columns those whose parts have room in the second-level cache.
Result<int64_t> SplitTiling::tiles_at_once(int64_t n, int64_t width) {
  const int64_t bytes = bytes_of(width) * (sums_inside ? n_chunks : 1);
  std::vector<int64_t> counts;
  size_t preferred = 0;
  for (int64_t d = 1; d <= n; ++d) {
    if (n % d != 0) continue;
    if (d * bytes <= room()) preferred = counts.size();
    counts.push_back(d);
  }
  return decider.pick(s, {"tiles_at_once", counts, preferred});
}

// A block over the outputs, in tiles, the loops over sums around them.
Result<> SplitTiling::in_tiles(BlockRef of, Tail tail) {
  FETTLE_TRY(const Loops l, get_loops(s, {.block = of}));
  const size_t r = row - n_sums, rank = n_spatial - n_sums;
  FETTLE_TRY(const Loops i, split(s, {.loop = l[r], .factors = {kInfer, rows}, .tail = tail}));
  FETTLE_TRY(const Loops j, split(s, {.loop = l[rank - 1], .factors = {kInfer, columns}, .tail = tail}));
  // The fewer of rows and columns inside, so many at once that their parts stay in the second-level cache.
  by_rows = extents[row] > extents[column()];
  FETTLE_TRY(const int64_t n_inside, loop_extent(s, by_rows ? j[0] : i[0]));
  FETTLE_TRY(const int64_t at_once, tiles_at_once(n_inside, by_rows ? columns : rows));
  FETTLE_TRY(const Loops inside, split(s, {.loop = by_rows ? j[0] : i[0], .factors = {kInfer, at_once}}));
  const Loops tiles = {by_rows ? i[0] : j[0], inside[1]};
  Loops others;
  int64_t n_others = 1;
  for (size_t o = 0; o + 1 < rank; ++o) {
    if (o == r) continue;
    others.push_back(l[o]);
    n_others *= extents[n_sums + o];
  }
  const Loops sums(l.begin() + static_cast<std::ptrdiff_t>(rank), l.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({others, {inside[0]}, sums, tiles, {i[1], j[1]}})}));
  tile = tiles.back();
  panel = tiles.front();
  n_around = others.size() + 1 + sums.size() + tiles.size();
  FETTLE_TRY(const int64_t n_panels, loop_extent(s, panel));
  const Loops shared = n_panels >= threads ? Loops{panel} : tiles;
  dealt_out = n_others >= threads ? others : sums.empty() ? concatenated({others, shared}) : shared;
  return {};
}

// A tile of the product, where it is read.
Result<> SplitTiling::tile_product() {
  FETTLE_TRY(const BlockRef product, block(parts.product));
  FETTLE_TRY_VOID(compute_at(s, {.block = product, .loop = tile}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = product, .scope = kTileScope}));
  FETTLE_TRY(Loops loops, get_loops(s, {.block = product}));
  loops.erase(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(n_around));
  if (loops.size() != vars.size()) return fail(ErrorCode::E230, parts.product + " has other loops");
  const auto cut = [&](LoopRef loop, int64_t inner) { return split(s, {.loop = loop, .factors = {kInfer, inner}}); };
  FETTLE_TRY(const Loops i, cut(loops[row], kTile));
  FETTLE_TRY(const Loops j, cut(loops[column()], kTile));
  FETTLE_TRY(const Loops k, cut(loops[depth()], kSteps));
  Loops steps(loops.begin() + static_cast<std::ptrdiff_t>(n_spatial), loops.end() - 2);
  steps.push_back(k[0]);
  const LoopRef term = loops[loops.size() - 2];
  Loops order;
  for (size_t o = 0; o < column(); ++o)
    if (o != row) order.push_back(loops[o]);  // of one iteration
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({order, steps, {term, i[0], j[0], i[1], j[1], k[1]}})}));
  for (const LoopRef& loop : {term, i[0], j[0]}) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));

  FETTLE_TRY(const Loops copied, get_loops(s, {.block = back}));
  FETTLE_TRY(const Loops r, cut(copied[copied.size() - (n_spatial - row)], kTile));
  FETTLE_TRY(const Loops c, cut(copied.back(), kTile));
  FETTLE_TRY_VOID(reorder(s, {.loops = {r[0], c[0], r[1], c[1]}}));
  for (const LoopRef& loop : {r[0], c[0]}) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  FETTLE_TRY_VOID(finish(back));
  FETTLE_TRY_VOID(as_unit(back, kStore, 2));
  FETTLE_TRY(const BlockRef init, decompose_reduction(s, {.block = product, .loop = steps.front()}));
  FETTLE_TRY_VOID(finish(init));
  FETTLE_TRY_VOID(as_unit(init, kZero, 2));
  made.push_back(parts.product);
  return as_unit(product, kProduct, 3);
}

// Whether a tile is in doubt, and what it is as written, in vectors.
Result<> SplitTiling::tile_of_outputs() {
  made.insert(made.end(), {parts.written, parts.doubt, parts.least});
  const int64_t lanes = lanes_of(target, kF32);
  {
    FETTLE_TRY(const BlockRef least, block(parts.least));
    FETTLE_TRY(const Loops l, get_loops(s, {.block = least}));
    FETTLE_TRY(const Loops j, split(s, {.loop = l[l.size() - 2], .factors = {kInfer, lanes}, .tail = Tail::kMask}));
    FETTLE_TRY_VOID(reorder(s, {.loops = {l.back(), j[0], j[1]}}));
    FETTLE_TRY_VOID(unroll(s, {.loop = j[0]}));
    FETTLE_TRY_VOID(vectorize(s, {.loop = j[1]}));
    FETTLE_TRY_VOID(begin_sums(s, least, l.back()));
    made.push_back(parts.least + "_init");
  }
  // As written, in a register tile: where much is in doubt it is the whole product.
  FETTLE_TRY(const BlockRef written, block(parts.written));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = written, .scope = kScopeRegister}));
  FETTLE_TRY(const Loops w, get_loops(s, {.block = written}));  // … outputs, reductions
  const BlockNode* node = find_block(s.func()->body, parts.written);
  const size_t n_outputs = n_spatial - n_sums, n_reductions = node->iters.size() - n_outputs;
  const Loops reduction(w.end() - static_cast<std::ptrdiff_t>(n_reductions), w.end());
  const size_t n_own = w.size() - n_around_tile - n_reductions;  // perhaps without those of one iteration
  if (n_own != 2 && n_own != n_outputs) return fail(ErrorCode::E230, parts.written + " has other loops");
  const LoopRef of_rows = w[n_around_tile + (n_own == n_outputs ? row - n_sums : 0)],
                of_columns = w[n_around_tile + n_own - 1];
  FETTLE_TRY(const Loops i, split(s, {.loop = of_rows, .factors = {kInfer, kDoubtfulRows}, .tail = Tail::kPartition}));
  FETTLE_TRY(const Loops j, split(s, {.loop = of_columns, .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({{i[0]}, reduction, {i[1], j[0], j[1]}})}));
  FETTLE_TRY_VOID(unroll_tile(s, {i[1], j[0], j[1]}));
  FETTLE_TRY_VOID(begin_sums(s, written, reduction.front()));
  FETTLE_TRY_VOID(write_back(s, back, i[0], n_around_tile + n_own - 1, lanes));
  FETTLE_TRY_VOID(finish(back));
  made.push_back(parts.written + "_init");
  return {};
}

// What is done with the product, and the product where that reads it: a tile of it, or of one sum.
Result<> SplitTiling::outputs() {
  const int64_t lanes = lanes_of(target, kF32);
  const bool apart = !parts.total.empty() && !sums_inside;  // the total has a nest of its own
  if (apart) {
    FETTLE_TRY(const BlockRef total, block(parts.total));
    FETTLE_TRY_VOID(in_tiles(total, Tail::kPartition));
    FETTLE_TRY_VOID(tile_product());
    FETTLE_TRY_VOID(vectorize_copy(s, total, n_around, lanes, false));
    made.push_back(parts.total);
    FETTLE_TRY_VOID(deal_out());
  }
  const auto reader = [&]() -> Result<BlockRef> {
    const BlockNode* written = find_block(s.func()->body, parts.written);
    const auto readers = consumers_of(s.func().root(), written->writes[0].buffer.get());
    if (readers.size() != 1) return fail(ErrorCode::E230, parts.written + " is not read by one block");
    return block(std::string(readers.front()->name));
  };
  FETTLE_TRY(BlockRef last, reader());
  inline_consumers(s, last);
  FETTLE_TRY(last, reader());
  FETTLE_TRY_VOID(finish(last));
  FETTLE_TRY_VOID(in_tiles(last, Tail::kPartition));
  n_around_tile = n_around;
  for (const std::string& name : {parts.written, parts.doubt, parts.least}) {
    FETTLE_TRY(const BlockRef of, block(name));
    FETTLE_TRY_VOID(compute_at(s, {.block = of, .loop = tile}));
  }
  FETTLE_TRY_VOID(vectorize_copy(s, last, n_around, lanes, false));
  if (sums_inside) FETTLE_TRY_VOID(add_up_tile());
  if (!apart) FETTLE_TRY_VOID(tile_product());
  FETTLE_TRY_VOID(tile_of_outputs());
  return apart ? parallelize(s, dealt_out, {.threads = threads}) : deal_out();
}

// for c: for i in 32: for j in 32: total[i, j] += product[c, i, j], a tile of one sum after the other
Result<> SplitTiling::add_up_tile() {
  FETTLE_TRY(const BlockRef total, block(parts.total));
  FETTLE_TRY_VOID(compute_at(s, {.block = total, .loop = tile}));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = total}));
  const auto around = static_cast<std::ptrdiff_t>(n_around), rank = static_cast<std::ptrdiff_t>(n_spatial - n_sums);
  if (std::ssize(loops) != around + rank + static_cast<std::ptrdiff_t>(n_sums))
    return fail(ErrorCode::E230, parts.total + " has other loops");
  const Loops over(loops.begin() + around, loops.begin() + around + rank),
      sums(loops.begin() + around + rank, loops.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({sums, over})}));
  tile = sums.back();
  n_around += sums.size();
  made.push_back(parts.total);
  return vectorize_copy(s, total, n_around, lanes_of(target, kF32), false);
}

// Tiles of the product to threads. Weights come from far: those of the next panel are asked for while this one is read.
Result<> SplitTiling::deal_out() {
  FETTLE_TRY_VOID(parallelize(s, dealt_out, {.threads = threads}));
  const int64_t n_panels = extents[column()] / columns;  // the product's extents are whole tiles
  return may_ask_for_next_panel(s, decider, panel, n_panels > 1, n_panels > 1 && !by_rows);
}

// The parts of the data, and its largest number: for …, x: for p (unrolled): for k in 32 (lanes). Those of the weights,
// a pair of steps and a vector of columns at a time.
Result<> SplitTiling::split_data() {
  FETTLE_TRY(const BlockRef peaks, block(parts.peaks));
  FETTLE_TRY(const Loops p, get_loops(s, {.block = peaks}));  // … lane, step
  FETTLE_TRY_VOID(reorder(s, {.loops = {p[p.size() - 1], p[p.size() - 2]}}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = p[p.size() - 2]}));
  FETTLE_TRY_VOID(begin_sums(s, peaks, p.back()));
  FETTLE_TRY_VOID(parallelize(s, {p.begin(), p.end() - 2}, {.threads = threads}));
  FETTLE_TRY(const BlockRef lanes, block(parts.peak_lanes));
  FETTLE_TRY(Loops q, get_loops(s, {.block = lanes}));  // lane, rows
  std::ranges::rotate(q, q.begin() + 1);
  FETTLE_TRY_VOID(reorder(s, {.loops = q}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = q.back()}));
  FETTLE_TRY_VOID(begin_sums(s, lanes, q.front()));

  FETTLE_TRY(const BlockRef writer, block(parts.data));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = writer}));  // … k0 p x k1
  const size_t n = l.size();
  FETTLE_TRY_VOID(reorder(s, {.loops = {l[n - 2], l[n - 3], l[n - 1]}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = l[n - 3]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = l[n - 1]}));
  FETTLE_TRY(const BlockRef packed, block(parts.weights));
  FETTLE_TRY(const Loops w, get_loops(s, {.block = packed}));  // … q j1 k1 j2 k2
  const size_t m = w.size();
  FETTLE_TRY_VOID(reorder(s, {.loops = {w[m - 4], w[m - 3], w[m - 1], w[m - 5], w[m - 2]}}));
  for (const LoopRef& loop : {w[m - 1], w[m - 5]}) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = w[m - 2]}));
  for (const std::string& name : {parts.peak, parts.weights_peak}) {
    FETTLE_TRY(const BlockRef of, block(name));
    FETTLE_TRY(const LoopsByKind kinds, loops_by_kind(s, of));
    FETTLE_TRY_VOID(begin_sums(s, of, kinds.reduction.front()));
    made.push_back(name + "_init");
  }
  made.insert(made.end(), {parts.data, parts.weights, parts.peaks, parts.peaks + "_init", parts.peak_lanes,
                           parts.peak_lanes + "_init", parts.peak, parts.weights_peak});
  return parallelize(s, {l.begin(), l.end() - 3}, {.threads = threads});
}

}  // namespace

std::optional<std::string> splittable_product(const Func& func, const Target& target) {
  const TensorIntrinsicDef* unit = find_tensor_intrinsic(kProduct);
  if (!unit || !unit->available(target)) return {};
  const BlockNode* reduction = only_reduction(func);
  if (!reduction) return {};
  const auto structure = block_structure(func, *reduction, Extents::kOpen);
  return structure && is_large(*structure, func) ? std::optional<std::string>(reduction->name) : std::nullopt;
}

bool splits_by_default(const Func& func, const Target& target) {
  if (!splittable_product(func, target)) return false;
  const auto structure = block_structure(func, *only_reduction(func), Extents::kOpen);
  if (std::ranges::count(structure->reduce, true) == 1) return true;
  // Of windows, where rows of the output fill tiles.
  const AccessPattern& weights = structure->loads[is_constant(func, structure->loads[0].buffer) ? 0 : 1];
  std::optional<size_t> row;
  for (size_t i = 0; i < structure->n_iters(); ++i)
    if (!structure->reduce[i] && !weights.touches(i) && structure->extents[i] > 1 &&
        (!row || structure->store.strides[i] < structure->store.strides[*row]))
      row = i;
  return row && 20 * round_up(structure->extents[*row], 2 * kTile) <= 21 * structure->extents[*row];
}

Result<SplitParts> replace_by_split_product(Schedule& s, const std::string& product, int64_t terms) {
  const BlockNode* block = find_block(s.func()->body, product);
  const StoreNode* store = block ? single_store(*block) : nullptr;
  if (!store) return fail(ErrorCode::E230, product + " is no product");
  int64_t steps = 1, rows = 1, columns = 1;
  for (const IterVar& iter : block->iters) {
    const int64_t* extent = as_int(iter.extent);
    if (!extent) return fail(ErrorCode::E230, product + " has open extents");
    if (iter.kind == IterKind::kReduce) steps = std::max(steps, *extent);
    for (size_t d = 0; d < store->indices.size(); ++d)
      if (store->indices[d].get() == iter.var.get())
        (d + 1 == store->indices.size() ? columns : rows) = *extent;  // rows: the last before the columns
  }
  const int64_t sums = (steps + kLongestSum - 1) / kLongestSum;
  const int64_t each = round_up((steps + sums - 1) / sums, kSteps);
  // Two tiles each way, unless a sixth would be beyond the last row or column.
  const auto of = [](int64_t n) { return 6 * round_up(n, 2 * kTile) <= 7 * n ? 2 * kTile : kTile; };
  FETTLE_TRY(const BlockRef ref, get_block(s, {.name = product}));
  FETTLE_TRY_VOID(
      reformulate(s, {.block = ref, .kind = "split_product", .numbers = {terms, each, of(rows), of(columns)}}));
  const auto parts = split_parts(s.func(), product);
  return parts ? Result<SplitParts>(*parts) : fail(ErrorCode::E230, "the reformulation has other parts");
}

std::optional<SplitParts> split_parts(const Func& func, std::string_view product) {
  std::vector<std::string> data, weights, products, outputs;
  for (const BlockNode* block : blocks_of(func.root())) {
    if (part_of(*block) != product) continue;
    const std::string_view role = role_of(*block);
    for (const auto& [name, list] :
         {std::pair{kDataRole, &data}, {kWeightsRole, &weights}, {kProductRole, &products}, {kOutputsRole, &outputs}})
      if (role == name) list->push_back(std::string(block->name));
  }
  if (data.size() != 4 || weights.size() != 2 || products.size() != 1 || outputs.size() < 3 || outputs.size() > 4)
    return {};
  const bool cut = outputs.size() == 4;
  return SplitParts{.block = std::string(product),
                    .data = data[0],
                    .weights = weights[0],
                    .product = products[0],
                    .total = cut ? outputs[0] : "",
                    .peaks = data[1],
                    .peak_lanes = data[2],
                    .peak = data[3],
                    .weights_peak = weights[1],
                    .least = outputs[outputs.size() - 3],
                    .doubt = outputs[outputs.size() - 2],
                    .written = outputs.back()};
}

Result<Finished> split_product_tiles(Schedule& s, const Target& target, Decider& decider, const SplitParts& parts,
                                     int threads) {
  SplitTiling tiling{.s = s, .target = target, .decider = decider, .parts = parts, .threads = threads};
  FETTLE_TRY_VOID(tiling.look());
  FETTLE_TRY_VOID(tiling.lay_out());
  FETTLE_TRY_VOID(tiling.outputs());
  FETTLE_TRY_VOID(tiling.split_data());
  return std::move(tiling.made);
}

}  // namespace fettle
