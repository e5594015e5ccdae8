#include "tune/parts/factored_sum.h"

#include <algorithm>

#include "ir/annotations.h"
#include "ir/query.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/reformulation.h"
#include "tune/parts/structure.h"
#include "tune/parts/threads.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

constexpr int64_t kFewestSteps = 8;                  // of a block
constexpr int64_t kRows[] = {1, 2, 3, 4, 6, 8, 12};  // of a tile
constexpr int64_t kVectors[] = {4, 2, 3, 1};         // the first of those that cost alike is preferred
constexpr double kUnpacking = 2.5;                   // instructions that make a vector of weights
constexpr int64_t kLeastSums = 8;                    // that hide the latency of a multiply-add
constexpr int64_t kAheadBytes = 8192;                // a stream of weights is asked for so early
constexpr double kNsPerVector = 0.7;                 // of weights

bool is_packed_constant(const Func& func, const LoadNode& load) {
  return load.buffer->dtype.is_int() && load.buffer->dtype.bits <= 8 && is_constant(func, load.buffer);
}

// The dimension of the load whose index is this variable alone, if no other index has it.
std::optional<size_t> own_dimension(const LoadNode& load, const Var& var) {
  std::optional<size_t> found;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    if (!uses_var(load.indices[d], var.get())) continue;
    if (found || load.indices[d].get() != var.get()) return {};
    found = d;
  }
  return found;
}

std::vector<const LoadNode*> constant_loads(const Func& func, const BlockNode& block) {
  std::vector<const LoadNode*> loads;
  each_node<LoadNode>(block.body, [&](const LoadNode& load) {
    if (is_constant(func, load.buffer) &&
        std::ranges::none_of(loads, [&](const LoadNode* l) { return l->buffer == load.buffer; }))
      loads.push_back(&load);
  });
  return loads;
}

// One run.
struct FactoredTiling {
  Schedule& s;
  const Target& target;
  Decider& decider;
  const SumParts& parts;
  int threads;
  Finished made = {};
  size_t vector = 0;                 // spatial iterator of both blocks: their number
  std::optional<size_t> row;         // another one
  size_t n_spatial = 0;              // of the sum
  std::vector<Extent> extents = {};  // of the sum's iterators
  int64_t steps = 1, lanes = 1, bytes_a_column = 0;
  size_t n_inner = 0;  // reduce iterators of the product
  Tile tile = {};

  int64_t width() const { return tile.vectors * lanes; }
  Result<> look();
  std::vector<Tile> tiles() const;
  Result<> pack(const std::string& block);
  Result<> run();
};

Result<> FactoredTiling::look() {
  const Func func = s.func();
  const BlockNode *sum = find_block(func->body, parts.block), *product = find_block(func->body, parts.product);
  const StoreNode* store = single_store(*sum);
  if (!store) return fail(ErrorCode::E230, parts.block + " is no sum");
  lanes = lanes_of(target, store->buffer->dtype);
  const IntEnv typical = typical_values(func);
  for (const IterVar& iter : sum->iters) {
    extents.push_back(extent_of(iter.extent, typical));
    n_spatial += iter.kind == IterKind::kSpatial ? 1 : 0;
  }
  if (n_spatial + 1 != sum->iters.size()) return fail(ErrorCode::E230, parts.block + " sums over several dimensions");
  // The product's iterators are the sum's, in their order, then its own.
  if (product->iters.size() <= sum->iters.size())
    return fail(ErrorCode::E230, parts.product + " has not all dimensions of " + parts.block);
  for (size_t i = sum->iters.size(); i < product->iters.size(); ++i) {
    const int64_t* extent = as_int(product->iters[i].extent);
    if (product->iters[i].kind != IterKind::kReduce || !extent)
      return fail(ErrorCode::E230, parts.product + " has other dimensions than " + parts.block);
    steps *= *extent;
    ++n_inner;
  }
  std::optional<size_t> found;
  for (const LoadNode* load : constant_loads(func, *product)) {
    if (!is_packed_constant(func, *load)) continue;
    for (size_t i = 0; i < n_spatial; ++i)
      if (own_dimension(*load, product->iters[i].var)) found = i;
    if (!found) continue;
    bytes_a_column = 1;
    for (size_t i = sum->iters.size(); i < product->iters.size(); ++i)
      if (std::ranges::any_of(load->indices, [&](const Expr& e) { return uses_var(e, product->iters[i].var.get()); }))
        bytes_a_column *= *as_int(product->iters[i].extent);
  }
  if (!found) return fail(ErrorCode::E230, "no dimension of " + parts.block + " fills vectors");
  vector = *found;
  for (size_t i = 0; i < n_spatial; ++i)
    if (i != vector) row = i;
  return {};
}

// By cycles: weights are unpacked once a tile, and multiplied by each row.
std::vector<Tile> FactoredTiling::tiles() const {
  std::vector<Tile> all;
  const int64_t rows = row ? extents[*row].value : 1, columns = extents[vector].value;
  for (const int64_t v : kVectors)
    for (const int64_t r : kRows) {
      if (r > rows || (v > 1 && (v - 1) * lanes >= columns)) continue;
      if (2 * r * v > target.vector_registers) continue;  // sums of a block, and of all blocks
      const auto sums = static_cast<double>(r * v), vectors = static_cast<double>(v);
      const double issued = (kUnpacking * vectors + sums) / 2, loads = (static_cast<double>(r) + vectors / 2) / 2;
      const double step = std::max({issued, loads, 4 * sums / static_cast<double>(std::max(kLeastSums, r * v))});
      const int64_t tiles = ((rows + r - 1) / r) * ((columns + v * lanes - 1) / (v * lanes));
      all.push_back({.rows = r, .vectors = v, .cost = step * static_cast<double>(tiles)});
    }
  std::ranges::stable_sort(all, {}, &Tile::cost);
  return all;
}

// Constants that move with the columns, in panels:  (n, …) → (n // width, …, n % width)
Result<> FactoredTiling::pack(const std::string& name) {
  for (bool more = true; more;) {
    more = false;
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    const BlockNode* node = find_block(s.func()->body, name);
    for (const LoadNode* load : constant_loads(s.func(), *node)) {
      const auto along = own_dimension(*load, node->iters[vector].var);
      if (!along) continue;
      IndexMap map;
      for (size_t d = 0; d < load->indices.size(); ++d) map.inputs.push_back(make_var("d" + std::to_string(d)));
      const Expr column = map.inputs[*along];
      map.outputs.push_back(floordiv(column, Expr(width())));
      for (size_t d = 0; d < load->indices.size(); ++d)
        if (d != *along) map.outputs.push_back(map.inputs[d]);
      map.outputs.push_back(floormod(column, Expr(width())));
      FETTLE_TRY(const BlockRef panels, pack_panels(s, block, load->buffer, map));
      FETTLE_TRY(const BlockNode* copy, block_node(s, panels));
      made.push_back(copy->name);
      more = true;  // what the block reads has changed
      break;
    }
  }
  return {};
}

Result<> FactoredTiling::run() {
  FETTLE_TRY_VOID(look());
  FETTLE_TRY(tile, pick_tile(s, decider, tiles(), parts.block));
  FETTLE_TRY_VOID(pack(parts.product));
  FETTLE_TRY_VOID(pack(parts.block));
  FETTLE_TRY(const BlockRef sum, get_block(s, {.name = parts.block}));
  FETTLE_TRY(const BlockRef product, get_block(s, {.name = parts.product}));
  FETTLE_TRY_VOID(set_scope(s, {.block = product, .scope = kScopeRegister}));
  FETTLE_TRY(const BlockRef back, accumulate_in_registers(s, sum));

  // The sum's loops: [other dimensions, panels, tiles of rows], blocks, [rows, vectors, lanes].
  FETTLE_TRY(const Loops l, get_loops(s, {.block = sum}));
  if (l.size() != extents.size()) return fail(ErrorCode::E230, parts.block + " has other loops");
  FETTLE_TRY(const Loops columns, cut_columns(s, l[vector], tile.vectors, lanes, /*padded=*/true));
  Loops others, rows, inner;
  for (size_t i = 0; i < n_spatial; ++i)
    if (i != vector && i != row) others.push_back(l[i]);
  if (row) {
    FETTLE_TRY(const Loops cut, split(s, {.loop = l[*row], .factors = {kInfer, tile.rows}, .tail = Tail::kPartition}));
    rows.push_back(cut[0]);
    inner.push_back(cut[1]);
  }
  inner.insert(inner.end(), {columns[1], columns[2]});
  const LoopRef blocks = l[n_spatial];
  const Loops around = concatenated({others, {columns[0]}, rows});
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({around, {blocks}, inner})}));
  FETTLE_TRY_VOID(unroll_tile(s, inner));

  // The product of one block, where it is read.
  FETTLE_TRY_VOID(compute_at(s, {.block = product, .loop = blocks, .preserve_unit_loops = true}));
  FETTLE_TRY(Loops p, get_loops(s, {.block = product}));
  const size_t n_own = n_spatial + 1 + n_inner;
  if (p.size() < n_own) return fail(ErrorCode::E230, parts.product + " has other loops");
  p.erase(p.begin(), p.end() - static_cast<std::ptrdiff_t>(n_own));
  Loops reduction(p.end() - static_cast<std::ptrdiff_t>(n_inner), p.end()), units, of_tile;
  for (size_t i = 0; i <= n_spatial; ++i)
    if (i != vector && i != row) units.push_back(p[i]);
  FETTLE_TRY(const Loops cut, split(s, {.loop = p[vector], .factors = {tile.vectors, lanes}}));
  if (row) of_tile.push_back(p[*row]);
  of_tile.insert(of_tile.end(), cut.begin(), cut.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({units, reduction, of_tile})}));
  FETTLE_TRY_VOID(unroll_tile(s, of_tile));
  // What one byte holds is taken out of it at once.
  FETTLE_TRY(const int64_t in_a_byte, loop_extent(s, reduction.back()));
  if (reduction.size() > 1 && in_a_byte <= 8) FETTLE_TRY_VOID(unroll(s, {.loop = reduction.back()}));

  const size_t n_around = around.size();
  FETTLE_TRY_VOID(write_back(s, back, around.back(), n_around, lanes));
  FETTLE_TRY_VOID(begin_sums(s, sum, blocks));
  FETTLE_TRY_VOID(begin_sums(s, product, reduction.front()));
  made.insert(made.end(), {parts.product, parts.block, parts.product + "_init", parts.block + "_init"});
  FETTLE_TRY(const BlockNode* copy, block_node(s, back));
  made.push_back(copy->name);

  const int64_t ahead = std::max<int64_t>(1, kAheadBytes / std::max<int64_t>(1, bytes_a_column * width()));
  FETTLE_TRY(const int64_t distance, decider.pick(s, {"prefetch", {0, ahead, 2 * ahead}, 1}));
  if (distance > 0) FETTLE_TRY_VOID(annotate(s, {.target = blocks, .key = kPrefetchKey, .value = distance}));

  double vectors = static_cast<double>(steps) / static_cast<double>(lanes);
  for (const Extent& extent : extents) vectors *= static_cast<double>(extent.value);
  const double alone = kNsPerVector * vectors;
  FETTLE_TRY(const bool shared, worth_threads(s, decider, threads, alone));
  if (shared) FETTLE_TRY_VOID(parallelize(s, around, {.threads = threads, .alone_ns = alone}));
  return {};
}

}  // namespace

Result<Finished> factored_sum_tiles(Schedule& s, const Target& target, Decider& decider, const SumParts& parts,
                                    int threads) {
  FactoredTiling tiling{.s = s, .target = target, .decider = decider, .parts = parts, .threads = threads};
  FETTLE_TRY_VOID(tiling.run());
  return std::move(tiling.made);
}

std::optional<std::string> factorable_sum(const Func& func) {
  const BlockNode* block = only_reduction(func);
  const StoreNode* store = block ? single_store(*block) : nullptr;
  if (!store) return {};
  int64_t steps = 1;
  bool outermost = true;
  for (const IterVar& iter : block->iters) {
    if (iter.kind != IterKind::kReduce) continue;
    const int64_t* extent = as_int(iter.extent);
    if (!outermost) steps *= extent ? *extent : 0;
    outermost = false;
  }
  if (steps < kFewestSteps) return {};
  for (const LoadNode* load : constant_loads(func, *block)) {
    if (!is_packed_constant(func, *load)) continue;
    const bool is_column = std::ranges::any_of(block->iters, [&](const IterVar& iter) {
      return iter.kind == IterKind::kSpatial && own_dimension(*load, iter.var);
    });
    const bool is_inside = std::ranges::any_of(load->indices, [&](const Expr& e) {
      return uses_var(e, block->iters.back().var.get()) ||
             (block->iters.size() > 1 && uses_var(e, block->iters[block->iters.size() - 2].var.get()));
    });
    if (!is_column || !is_inside) continue;
    Schedule trial(func);
    if (replace_by_factored_sum(trial, std::string(block->name))) return std::string(block->name);
  }
  return {};
}

Result<SumParts> replace_by_factored_sum(Schedule& s, const std::string& name) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY_VOID(reformulate(s, {.block = block, .kind = "factor_sum", .numbers = {int64_t{1}}}));
  auto parts = factored_parts(s.func(), name);
  if (!parts) return fail(ErrorCode::E228, name + " is no factored sum");
  return std::move(*parts);
}

std::optional<SumParts> factored_parts(const Func& func, std::string_view block) {
  SumParts parts;
  for (const BlockNode* node : blocks_of(func.root())) {
    if (part_of(*node) != block || !node->init) continue;
    if (role_of(*node) == kProductRole) parts.product = node->name;
    if (role_of(*node) == kOutputsRole && node->name == block) parts.block = node->name;
  }
  const bool is_one = !parts.product.empty() && !parts.block.empty();
  return is_one ? std::optional(std::move(parts)) : std::nullopt;
}

}  // namespace fettle
