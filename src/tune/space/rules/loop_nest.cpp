#include "tune/space/rules/loop_nest.h"

#include <algorithm>
#include <optional>

#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"

namespace fettle {
namespace {

/// Less than so many elements are not worth a fork.
constexpr int64_t kWorthThreads = 8192;

bool applies(const RuleContext&, const BlockNode&) { return true; }

// The number of innermost loops that may become one, since every access walks through them contiguously or not at all.
size_t contiguous_tail(const BlockStructure& block) {
  const size_t n = block.n_iters();
  size_t count = 1;
  for (size_t i = n - 1; i-- > 0; ++count) {
    if (block.reduce[i] || block.reduce[i + 1]) break;
    const auto fits = [&](const AccessPattern& access) {
      const int64_t a = access.strides[i], b = access.strides[i + 1];
      if (a == AccessPattern::kIrregular || b == AccessPattern::kIrregular || access.guarded) return false;
      return block.extents[i] == 1 || a == b * block.extents[i + 1];
    };
    if (!fits(block.store) || !std::all_of(block.loads.begin(), block.loads.end(), fits)) break;
  }
  return count;
}

/// Lanes of 32 bits that lowering transposes in registers (transpose_tiles in lower/passes).
constexpr int64_t kFewestTransposed = 4, kMostTransposed = 16;

// The iterator along which something is read contiguously that the lanes would read in strides, if there is one.
std::optional<size_t> transposed_iterator(const BlockStructure& block, size_t lane, int64_t lanes) {
  if (block.store.buffer->dtype.element_bytes() != 4 || lanes < kFewestTransposed || lanes > kMostTransposed) return {};
  if (block.extents[lane] < kFewestTransposed) return {};
  for (const AccessPattern& load : block.loads) {
    const int64_t stride = load.strides[lane];
    if (stride == 0 || stride == 1 || stride == AccessPattern::kIrregular) continue;
    if (load.buffer->dtype.element_bytes() != 4) continue;
    for (size_t i = 0; i < block.n_iters(); ++i)
      if (!block.reduce[i] && load.strides[i] == 1 && block.extents[i] >= kFewestTransposed) return i;
  }
  return {};
}

// A tile as wide as a vector each way, which is read row by row and written column by column.
Result<> in_transposed_tiles(RuleContext& ctx, const BlockStructure& block, std::vector<LoopRef> loops, size_t lane,
                             size_t column, int64_t lanes) {
  Schedule& s = ctx.schedule;
  int64_t width = lanes;
  while (width / 2 >= block.extents[lane]) width /= 2;
  // Which of the two goes on first: what is written lies side by side then, or what is read.
  FETTLE_TRY(const int64_t read_on, choose(ctx, "read_on", {0, 1}));
  std::vector<LoopRef> outer;
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != lane && i != column) outer.push_back(loops[i]);
  LoopRef lane_inner = loops[lane], column_inner = loops[column];
  std::vector<LoopRef> tiles;
  if (block.extents[column] > width) {
    FETTLE_TRY(const auto parts,
               split(s, {.loop = loops[column], .factors = {kInfer, width}, .tail = Tail::kPartition}));
    tiles.push_back(parts[0]);
    column_inner = parts[1];
  }
  if (block.extents[lane] > width) {
    FETTLE_TRY(const auto parts, split(s, {.loop = loops[lane], .factors = {kInfer, width}, .tail = Tail::kMask}));
    tiles.insert(read_on ? tiles.begin() : tiles.end(), parts[0]);
    lane_inner = parts[1];
  }
  outer.insert(outer.end(), tiles.begin(), tiles.end());
  std::vector<LoopRef> order = outer;
  order.push_back(column_inner);
  order.push_back(lane_inner);
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY_VOID(unroll(s, {.loop = column_inner}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = lane_inner}));
  if (block.points() < kWorthThreads || outer.empty()) return {};
  return parallelize(ctx, outer);
}

Result<> apply(RuleContext& ctx, BlockRef block) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  const std::string name = node->name;
  const Func func = s.func();
  ctx.done.insert(name);
  s.set_address_prefix("loop_nest/" + name);
  FETTLE_TRY(std::vector<LoopRef> loops, loops_of_block(ctx, block));
  if (loops.empty()) return {};
  const auto structure = block_structure(func, *node);
  if (!structure) return parallelize(ctx, {loops.front()});

  const DType dtype = structure->store.buffer->dtype;
  const int64_t lanes = ctx.lanes(dtype);
  // Spatial loops: the one that walks through what is written goes innermost.
  size_t vector = structure->n_iters();
  for (size_t i = 0; i < structure->n_iters(); ++i)
    if (!structure->reduce[i] && structure->store.strides[i] == 1 && structure->extents[i] > 1) vector = i;

  if (vector < structure->n_iters())
    if (const auto column = transposed_iterator(*structure, vector, lanes)) {
      Schedule before = s;
      if (in_transposed_tiles(ctx, *structure, loops, vector, *column, lanes)) return {};
      s = std::move(before);
    }

  const size_t tail = contiguous_tail(*structure);
  LoopRef inner;
  int64_t extent = 0;
  std::vector<LoopRef> outer(loops);
  if (vector + 1 == structure->n_iters() && tail > 1 && structure->extents[vector] < 8 * lanes) {
    Schedule trial = s;
    const std::vector<LoopRef> group(loops.end() - static_cast<std::ptrdiff_t>(tail), loops.end());
    if (auto fused = fuse(trial, {.loops = group})) {
      s = std::move(trial);
      outer.resize(outer.size() - tail);
      inner = *fused;
      FETTLE_TRY(extent, loop_extent(ctx, inner));
    }
  }
  if (extent == 0 && vector < structure->n_iters()) {
    inner = loops[vector];
    extent = structure->extents[vector];
    outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(vector));
  }
  if (extent >= 4) {
    FETTLE_TRY(const int64_t vectors, choose(ctx, "vectors", {1, 2, 4}));
    int64_t width = lanes;
    while (width / 2 >= extent) width /= 2;
    // A long loop without others gets one to be dealt out to threads.
    std::vector<LoopRef> order;
    LoopRef lane = inner, unrolled;
    bool has_unrolled = false;
    if (extent > width) {
      const bool several = vectors > 1 && extent >= 2 * vectors * width;
      SplitArgs args{.loop = inner, .factors = {kInfer, width}, .tail = several ? Tail::kPartition : Tail::kMask};
      if (several) args.factors = {kInfer, vectors, width};
      FETTLE_TRY(const std::vector<LoopRef> parts, split(s, args));
      outer.push_back(parts[0]);
      lane = parts.back();
      if (several) {
        unrolled = parts[1];
        has_unrolled = true;
      }
    }
    order = outer;
    if (has_unrolled) order.push_back(unrolled);
    order.push_back(lane);
    if (order.size() > 1) {
      Schedule trial = s;
      if (reorder(trial, {.loops = order})) s = std::move(trial);
    }
    Schedule trial = s;
    if (vectorize(trial, {.loop = lane})) s = trial;
    if (has_unrolled && unroll(trial, {.loop = unrolled})) s = std::move(trial);
  }
  std::vector<LoopRef> spatial;
  for (const LoopRef& loop : outer) spatial.push_back(loop);
  if (structure->points() < kWorthThreads) return {};
  return parallelize(ctx, spatial);
}

}  // namespace

constinit const SketchRule loop_nest_def = {"loop_nest", 100, applies, apply};

}  // namespace fettle
