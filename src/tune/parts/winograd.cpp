#include "tune/parts/winograd.h"

#include <algorithm>
#include <array>

#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/reformulation.h"
#include "tune/parts/loops.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

constexpr const char* kScopeLocal = "local";  // of one thread of a GPU

using Loops = std::vector<LoopRef>;

constexpr int64_t kTaps = 3, kFewChannels = 16, kFewPixels = 4;

bool may_pay(const Func& func, const BlockNode& block) {
  const auto structure = block_structure(func, block, Extents::kOpen);
  if (!structure || !structure->multiplies_two_loads || structure->loads.size() != 2) return false;
  if (!structure->store.buffer->dtype.is_float() || structure->store.buffer->dtype.bits != 32) return false;
  const bool first = is_constant(func, structure->loads[0].buffer);
  if (first == is_constant(func, structure->loads[1].buffer)) return false;
  const AccessPattern& weights = structure->loads[first ? 0 : 1];
  const AccessPattern& data = structure->loads[first ? 1 : 0];
  const size_t rank = structure->store.indices.size();
  if (data.indices.size() != rank || rank < 3) return false;
  int n_windows = 0, n_channels = 0, n_outs = 0;
  for (size_t i = 0; i < structure->n_iters(); ++i) {
    const Var& var = structure->vars[i];
    if (structure->reduce[i]) {
      if (data.dimension_of(var) == static_cast<int>(rank) - 1 && weights.touches(i)) {
        if (structure->open[i] || structure->extents[i] < kFewChannels) return false;
        ++n_channels;
      } else if (!structure->is(i, kTaps)) {
        return false;
      }
      continue;
    }
    if (structure->is(i, 1)) continue;  // of one image
    const int dimension = structure->store.dimension_of(var);
    if (dimension < 0) return false;
    const bool slides = std::ranges::any_of(structure->vars, [&](const Var& other) {
      return other.get() != var.get() && data.shares_dimension(var, other);
    });
    if (slides) {
      if (structure->extents[i] < kFewPixels) return false;
      ++n_windows;
    } else if (!data.touches(i)) {
      if (static_cast<size_t>(dimension) + 1 != rank || structure->extents[i] < kFewChannels) return false;
      ++n_outs;
    }
  }
  return n_windows == 2 && n_channels == 1 && n_outs == 1;
}

// The block that writes the output: what the last part is done with element by element is inlined there.
const BlockNode* last_block(const Func& func, const WinogradParts& parts) {
  const BlockNode* columns = find_block(func->body, parts.columns);
  if (!columns || columns->writes.size() != 1) return nullptr;
  const auto readers = consumers_of(func.root(), columns->writes[0].buffer.get());
  return readers.size() == 1 ? readers.front() : nullptr;
}

struct Transforms {
  Schedule& s;
  const Target& target;
  const WinogradParts& parts;
  std::string last;  // the block that writes the output
  BlockStructure structure;
  bool threads = false;  // of a GPU: no vectors
  int64_t lanes = 1;

  static Result<Transforms> of(Schedule& s, const Target& target, const WinogradParts& parts);
  Result<BlockRef> block(const std::string& name) const { return get_block(s, {.name = name}); }
  Result<size_t> loop_over(size_t dimension) const;
  Result<> to_vector(LoopRef loop) const;
  Result<> in_registers(BlockRef block, size_t vector, std::array<size_t, 2> unrolled) const;
  Result<Loops> pixels(std::optional<IntRef> height, Loops& around) const;
  Result<Loops> inputs(size_t shared, LoopRef strip) const;
  Result<> weights() const;
};

// The loop of the last block that walks through a dimension of the output.
Result<size_t> Transforms::loop_over(size_t dimension) const {
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
Result<> Transforms::in_registers(BlockRef block, size_t vector, std::array<size_t, 2> unrolled) const {
  FETTLE_TRY(const Loops all, get_loops(s, {.block = block}));
  if (all.size() < 3) return fail(ErrorCode::E230, "a transform has other loops");
  if (threads) {  // of one channel there is no loop
    FETTLE_TRY_VOID(unroll_all(s, {all.end() - 2, all.end()}));
    return set_scope(s, {.block = block, .scope = kScopeLocal});
  }
  const Loops own(all.end() - 3, all.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = {own[unrolled[0]], own[unrolled[1]], own[vector]}}));
  FETTLE_TRY_VOID(unroll_all(s, {own[unrolled[0]], own[unrolled[1]]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = own[vector]}));
  FETTLE_TRY(const int64_t first, loop_extent(s, own[unrolled[0]]));
  FETTLE_TRY(const int64_t second, loop_extent(s, own[unrolled[1]]));
  if (first * second > target.vector_registers) return {};
  return set_scope(s, {.block = block, .scope = kScopeRegister});
}

// The outputs: for …, p0: for p1, q, o0: m x m pixels of one vector of channels, each from its column. `around`: the
// loops around one strip.
Result<Loops> Transforms::pixels(std::optional<IntRef> height, Loops& around) const {
  const int64_t m = parts.outputs;
  FETTLE_TRY(const BlockRef out, block(last));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = out}));
  FETTLE_TRY(const size_t h_loop, loop_over(parts.height));
  FETTLE_TRY(const size_t w_loop, loop_over(parts.width));
  FETTLE_TRY(const size_t o_loop, loop_over(structure.store.indices.size() - 1));
  const int64_t rows = (structure.extents[h_loop] + m - 1) / m;  // of tiles
  std::vector<IntRef> factors = {kInfer, height.value_or(rows), m};
  if (!height && structure.open[h_loop]) factors = {1, kInfer, m};
  FETTLE_TRY(const Loops h, split(s, {.loop = loops[h_loop], .factors = factors, .tail = Tail::kMask}));
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
Result<Loops> Transforms::inputs(size_t shared, LoopRef strip) const {
  FETTLE_TRY(const BlockRef tiles, block(parts.tiles));
  if (shared > 0) FETTLE_TRY_VOID(compute_at(s, {.block = tiles, .loop = strip}));
  FETTLE_TRY(const Loops t, get_loops(s, {.block = tiles}));  // … | n p q c x y
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

// What fills vectors; on a GPU it is one element, and stays.
Result<> Transforms::to_vector(LoopRef loop) const { return threads ? Result<>() : vectorize(s, {.loop = loop}); }

// Once, when the program is compiled: all points of one filter at a time, so that rows of the matrices are constants.
Result<> Transforms::weights() const {
  FETTLE_TRY(const BlockRef weights, block(parts.weights));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = weights}));  // x y c o kh kw
  if (l.size() != 6) return fail(ErrorCode::E230, parts.weights + " has other loops");
  FETTLE_TRY_VOID(reorder(s, {.loops = {l[2], l[3], l[0], l[1], l[4], l[5]}}));
  return unroll_all(s, {l[0], l[1], l[4], l[5]});
}

Result<Transforms> Transforms::of(Schedule& s, const Target& target, const WinogradParts& parts) {
  Transforms transforms{.s = s, .target = target, .parts = parts};
  const Func func = s.func();
  const BlockNode* last = last_block(func, parts);
  if (!last) return fail(ErrorCode::E230, parts.columns + " is not read by one block");
  transforms.last = last->name;
  const auto structure = block_structure(func, *last, Extents::kOpen);
  if (!structure) return fail(ErrorCode::E230, transforms.last + " has other loops");
  transforms.structure = *structure;
  transforms.threads = target.has_threads();
  transforms.lanes = transforms.threads ? 1 : lanes_of(target, structure->store.buffer->dtype);
  return transforms;
}

}  // namespace

std::optional<std::string> winograd_convolution(const Func& func) {
  const BlockNode* reduction = nullptr;
  for (const BlockNode* block : blocks_of(func.root())) {
    if (!block->init) continue;
    if (reduction) return {};
    reduction = block;
  }
  return reduction && may_pay(func, *reduction) ? std::optional<std::string>(reduction->name) : std::nullopt;
}

Result<WinogradParts> replace_by_winograd(Schedule& s, const std::string& convolution, int64_t m) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = convolution}));
  FETTLE_TRY_VOID(reformulate(s, {.block = block, .kind = "winograd", .numbers = {m}}));
  const auto parts = winograd_parts(s.func(), convolution);
  return parts ? Result<WinogradParts>(*parts) : fail(ErrorCode::E230, "the reformulation has other parts");
}

std::optional<WinogradParts> winograd_parts(const Func& func, std::string_view convolution) {
  WinogradParts parts{.block = std::string(convolution)};
  for (const BlockNode* block : blocks_of(func.root())) {
    if (part_of(*block) != convolution) continue;
    const std::string_view role = role_of(*block);
    if (role == kWeightsRole) parts.weights = block->name;
    if (role == kDataRole) (parts.rows.empty() ? parts.rows : parts.tiles) = block->name;
    if (role == kProductRole) parts.product = block->name;
    const Attribute* annotation = block->annotations.find(kTilesKey);
    const auto* tiles = annotation ? std::get_if<std::vector<int64_t>>(annotation) : nullptr;
    if (role != kOutputsRole || !tiles || tiles->size() != 3) continue;
    parts.columns = block->name;
    parts.height = static_cast<size_t>(tiles->at(0));
    parts.width = static_cast<size_t>(tiles->at(1));
    parts.outputs = tiles->at(2);
  }
  for (const std::string* part : {&parts.weights, &parts.rows, &parts.tiles, &parts.product, &parts.columns})
    if (part->empty()) return {};
  return parts;
}

std::vector<int64_t> winograd_strips(const Func& func, const WinogradParts& parts) {
  const BlockNode* last = last_block(func, parts);
  const auto structure = last ? block_structure(func, *last, Extents::kOpen) : std::nullopt;
  std::vector<int64_t> heights;
  for (size_t i = 0; structure && i < structure->n_iters(); ++i) {
    if (structure->store.dimension_of(structure->vars[i]) != static_cast<int>(parts.height)) continue;
    const int64_t rows = (structure->extents[i] + parts.outputs - 1) / parts.outputs;
    if (structure->open[i]) return {1};  // what divides any number of rows
    for (int64_t height = 1; height < rows; ++height)
      if (rows % height == 0) heights.push_back(height);
  }
  return heights;
}

Result<PlacedTransforms> place_transforms(Schedule& s, const Target& target, const WinogradParts& parts,
                                          std::optional<IntRef> strip) {
  FETTLE_TRY(const Transforms transforms, Transforms::of(s, target, parts));
  PlacedTransforms placed{.last = transforms.last};
  FETTLE_TRY_VOID(transforms.weights());
  Loops around;
  FETTLE_TRY(const Loops tiles, transforms.pixels(strip, around));
  placed.outputs = around;
  placed.outputs.insert(placed.outputs.end(), tiles.begin(), tiles.end());
  if (!strip) {
    FETTLE_TRY(placed.inputs, transforms.inputs(0, {}));
    return placed;
  }
  FETTLE_TRY(const BlockRef product, transforms.block(parts.product));
  FETTLE_TRY_VOID(compute_at(s, {.block = product, .loop = around.back()}));
  FETTLE_TRY_VOID(transforms.inputs(around.size(), around.back()));
  placed.around = std::move(around);
  return placed;
}

double least_share_of_products(const Func& workload, double max_error_bound) {
  const auto convolution = winograd_convolution(workload);
  double least = 1;
  for (const int64_t m : kWinogradOutputs) {
    Schedule trial(workload);
    if (!convolution || !replace_by_winograd(trial, *convolution, m)) return 1;
    const double share = static_cast<double>(m + kTaps - 1) / static_cast<double>(m * kTaps);
    if (error_bound_of(trial.func()) <= max_error_bound) least = std::min(least, share * share);
  }
  return least;
}

}  // namespace fettle
