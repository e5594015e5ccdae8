#include "hand_schedules.h"

#include <map>

#include <fmt/core.h>

#include "base/check.h"
#include "operators.h"

#include "ir/annotations.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_inplace.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"

namespace fettle::bench {
namespace {

using Loops = std::vector<LoopRef>;

IndexMap index_map(const std::string& text) {
  IndexMap map;
  FETTLE_CHECK_MSG(from_arg(ArgValue{text}, map), text);
  return map;
}

// The image in a layout of its own; its padding is inlined.
Result<> lay_out_image(Schedule& s, BlockRef o, const ConvProblem& p, const IndexMap& layout) {
  if (p.padding == 0) return transform_layout(s, {.block = o, .buffer_index_type = "read", .index_map = layout});
  FETTLE_TRY(BlockRef padded, get_block(s, {.name = "padded"}));
  FETTLE_TRY_VOID(transform_layout(s, {.block = padded, .buffer_index_type = "read", .index_map = layout}));
  return compute_inline(s, {.block = padded});
}

Result<> unroll_all(Schedule& s, std::initializer_list<LoopRef> loops) {
  for (LoopRef loop : loops) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  return {};
}

}  // namespace

Result<> schedule_gemm(Schedule& s, const GemmTiles& t, int64_t lanes, int threads) {
  FETTLE_TRY(BlockRef c, get_block(s, {.name = "C"}));
  const int64_t width = t.vectors * lanes;

  // B in panels of `width` columns: what depends on constants alone moves to compile time.
  FETTLE_TRY(BlockRef panels, cache_read(s, {.block = c, .read_index = 1}));
  FETTLE_TRY_VOID(
      transform_layout(s, {.block = panels,
                           .buffer_index = 0,
                           .buffer_index_type = "write",
                           .index_map = index_map(fmt::format("(k, n) -> (n // {0}, k, n % {0})", width))}));
  FETTLE_TRY(BlockRef back, cache_write(s, {.block = c, .write_index = 0, .scope = kScopeRegister}));

  // A register tile of rows x width, whole depth at once.
  FETTLE_TRY(Loops loops, get_loops(s, {.block = c}));  // m n k
  FETTLE_TRY(Loops i, split(s, {.loop = loops[0], .factors = {kInfer, t.rows}, .tail = Tail::kBalance}));
  LoopRef block;
  if (t.block > 0) {
    FETTLE_TRY(Loops parts, split(s, {.loop = loops[1], .factors = {kInfer, t.block}, .tail = Tail::kPartition}));
    block = parts[0];
    loops[1] = parts[1];
  }
  FETTLE_TRY(Loops j, split(s, {.loop = loops[1], .factors = {kInfer, t.vectors, lanes}, .tail = Tail::kPad}));
  const LoopRef outer = t.rows_outside ? i[0] : j[0], inner = t.rows_outside ? j[0] : i[0];
  Loops k = {loops[2]};
  if (t.unroll > 1) {
    FETTLE_TRY(k, split(s, {.loop = loops[2], .factors = {kInfer, t.unroll}, .tail = Tail::kPartition}));
  }
  Loops order = {outer, inner};
  order.insert(order.end(), k.begin(), k.end());
  order.insert(order.end(), {i[1], j[1], j[2]});
  if (t.block > 0) order.insert(order.begin(), block);
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY_VOID(unroll_all(s, {i[1], j[1]}));
  if (t.unroll > 1) FETTLE_TRY_VOID(unroll(s, {.loop = k[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = j[2]}));

  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = inner}));
  FETTLE_TRY(Loops own, get_loops(s, {.block = back}));
  FETTLE_TRY(Loops columns, split(s, {.loop = own.back(), .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  FETTLE_TRY_VOID(unroll_all(s, {own[own.size() - 2], columns[0]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = columns[1]}));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = c, .loop = k[0]}).map([](BlockRef) {}));
  if (threads > 1) FETTLE_TRY_VOID(parallel(s, {.loop = outer}));
  if (t.near > 0) FETTLE_TRY_VOID(annotate(s, {.target = k.back(), .key = kPrefetchNearKey, .value = t.near}));
  if (!t.rows_outside) FETTLE_TRY_VOID(annotate(s, {.target = j[0], .key = kPrefetchKey, .value = 1}));
  if (t.ask_rows) FETTLE_TRY_VOID(annotate(s, {.target = i[0], .key = kPrefetchKey, .value = 1}));
  return {};
}

Result<> schedule_convolution(Schedule& s, const ConvProblem& p, const ConvTiles& t, int64_t lanes, int threads) {
  FETTLE_TRY(BlockRef o, get_block(s, {.name = "O"}));
  const int64_t width = t.vectors * lanes;
  const std::string blocked = fmt::format("(n, c, h, w) -> (n, c // {0}, h, w, c % {0})", lanes);
  // Weights first: inlining the padding reorders what the block reads.
  FETTLE_TRY(BlockRef panels, cache_read(s, {.block = o, .read_index = 1}));
  FETTLE_TRY_VOID(transform_layout(
      s, {.block = panels,
          .buffer_index = 0,
          .buffer_index_type = "write",
          .index_map =
              index_map(fmt::format("(o, i, h, w) -> (o // {0}, i // {1}, h, w, i % {1}, o % {0})", width, lanes))}));
  FETTLE_TRY_VOID(lay_out_image(s, o, p, index_map(blocked)));
  FETTLE_TRY_VOID(transform_layout(
      s, {.block = o, .buffer_index = 0, .buffer_index_type = "write", .index_map = index_map(blocked)}));
  FETTLE_TRY(BlockRef back, cache_write(s, {.block = o, .write_index = 0, .scope = kScopeRegister}));

  FETTLE_TRY(Loops loops, get_loops(s, {.block = o}));  // n oc oh ow ic kh kw
  FETTLE_TRY(Loops oc, split(s, {.loop = loops[1], .factors = {kInfer, t.vectors, lanes}, .tail = Tail::kPad}));
  FETTLE_TRY(Loops ic, split(s, {.loop = loops[4], .factors = {kInfer, lanes}, .tail = Tail::kPartition}));
  LoopRef row = loops[2], pixel = loops[3];
  if (t.flat) FETTLE_TRY_VOID(fuse(s, {.loops = {row, pixel}}).map([&](LoopRef fused) { pixel = fused; }));
  FETTLE_TRY(Loops ow, split(s, {.loop = pixel, .factors = {kInfer, t.pixels}, .tail = Tail::kBalance}));
  Loops order = {loops[0], oc[0]};
  if (!t.flat) order.push_back(row);
  order.insert(order.end(), {ow[0], ic[0], loops[5], loops[6], ic[1], ow[1], oc[1], oc[2]});
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY_VOID(unroll_all(s, {ow[1], oc[1]}));
  if (p.kernel > 1) FETTLE_TRY_VOID(unroll(s, {.loop = loops[6]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = oc[2]}));
  if (t.near > 0) FETTLE_TRY_VOID(annotate(s, {.target = ic[1], .key = kPrefetchNearKey, .value = t.near}));

  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = ow[0], .preserve_unit_loops = false}));
  FETTLE_TRY(Loops out, get_loops(s, {.block = back}));
  const Loops own(out.end() - 2, out.end());  // channels, pixels
  FETTLE_TRY(Loops channels, split(s, {.loop = own[0], .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {channels[0], own[1], channels[1]}}));
  FETTLE_TRY_VOID(unroll_all(s, {channels[0], own[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = channels[1]}));

  FETTLE_TRY_VOID(decompose_reduction(s, {.block = o, .loop = ic[0]}).map([](BlockRef) {}));
  if (threads > 1) {
    if (t.flat)
      FETTLE_TRY_VOID(parallel(s, {.loop = oc[0]}));
    else
      FETTLE_TRY_VOID(parallel(s, {.loop = row}));
  }
  return {};
}

Result<> schedule_channels_last(Schedule& s, const ConvProblem& p, const ConvTiles& t, int64_t lanes, int threads) {
  FETTLE_TRY(BlockRef o, get_block(s, {.name = "O"}));
  const int64_t width = t.vectors * lanes;
  const IndexMap channels_last = index_map("(n, c, h, w) -> (n, h, w, c)");
  FETTLE_TRY(BlockRef panels, cache_read(s, {.block = o, .read_index = 1}));
  FETTLE_TRY_VOID(transform_layout(
      s,
      {.block = panels, .index_map = index_map(fmt::format("(o, i, h, w) -> (o // {0}, h, w, i, o % {0})", width))}));
  FETTLE_TRY_VOID(lay_out_image(s, o, p, channels_last));
  FETTLE_TRY_VOID(transform_layout(s, {.block = o, .index_map = channels_last}));
  FETTLE_TRY(BlockRef back, cache_write(s, {.block = o, .scope = kScopeRegister}));

  FETTLE_TRY(Loops loops, get_loops(s, {.block = o}));  // n oc oh ow ic kh kw
  FETTLE_TRY(Loops oc, split(s, {.loop = loops[1], .factors = {kInfer, t.vectors, lanes}, .tail = Tail::kPad}));
  FETTLE_TRY(Loops ow, split(s, {.loop = loops[3], .factors = {kInfer, t.pixels}, .tail = Tail::kBalance}));
  Loops ic = {loops[4]};
  if (t.unroll > 1) {
    FETTLE_TRY(ic, split(s, {.loop = loops[4], .factors = {kInfer, t.unroll}}));
    FETTLE_TRY_VOID(unroll(s, {.loop = ic[1]}));
  }
  Loops order = {loops[0], oc[0], loops[2], ow[0], loops[5]};
  if (!t.taps_inside) order.push_back(loops[6]);
  order.insert(order.end(), ic.begin(), ic.end());
  if (t.taps_inside) order.push_back(loops[6]);
  order.insert(order.end(), {ow[1], oc[1], oc[2]});
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY_VOID(unroll_all(s, {loops[6], ow[1], oc[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = oc[2]}));
  if (t.prefetch > 0) FETTLE_TRY_VOID(annotate(s, {.target = ic.back(), .key = kPrefetchKey, .value = t.prefetch}));
  if (t.near > 0) FETTLE_TRY_VOID(annotate(s, {.target = ic.back(), .key = kPrefetchNearKey, .value = t.near}));

  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = ow[0], .preserve_unit_loops = false}));
  FETTLE_TRY(Loops out, get_loops(s, {.block = back}));
  const Loops own(out.end() - 2, out.end());  // channels, pixels
  FETTLE_TRY(Loops channels, split(s, {.loop = own[0], .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {own[1], channels[0], channels[1]}}));
  FETTLE_TRY_VOID(unroll_all(s, {channels[0], own[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = channels[1]}));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = o, .loop = loops[5]}).map([](BlockRef) {}));
  if (threads > 1) FETTLE_TRY_VOID(parallel(s, {.loop = loops[2]}));
  return {};
}

namespace {

// Sixteen registers hold a tile of 6 x 2 vectors, or 4 x 3. Its steps are short: four make one iteration.
Result<Schedule> hand_schedule_of_few_registers(const Shape& shape, const Target& target, int threads) {
  const int64_t lanes = target.vector_lanes(4);
  Schedule s(shape.matmul ? matmul_func(*shape.matmul) : convolution_func(*shape.conv));
  s.set_target(std::make_shared<const Target>(target));
  if (shape.matmul) {
    const MatmulProblem& m = *shape.matmul;
    GemmTiles tiles{.rows = 6, .vectors = 2, .near = 8, .unroll = 4};
    if (m.m == 512) tiles.rows_outside = true, tiles.block = 128;
    // A row of the tile is read once for three vectors: fewer lines from beyond the caches.
    if (m.m > 512 || m.m == 40) tiles.rows = 4, tiles.vectors = 3;
    tiles.ask_rows = m.m * m.k > (2 << 20);
    if (m.k < 256) tiles.near = 0;
    FETTLE_TRY_VOID(schedule_gemm(s, tiles, lanes, threads));
    return s;
  }
  const ConvProblem& p = *shape.conv;
  ConvTiles tiles{.pixels = 6, .vectors = 2};
  // Each tap is a loop by itself: two steps of each gain what four do, within two hundredths, and compile in 60 % of
  // the time.
  if (p.channels_in % 4 == 0) tiles.unroll = p.kernel == 1 ? 4 : 2;
  // Rows of 7 pixels are tiles of two heights, 4 and 3.
  if (p.width_out() == 7 || p.kernel == 1) tiles.pixels = 4, tiles.vectors = 3;
  if (p.channels_in < lanes) tiles.taps_inside = true;
  FETTLE_TRY_VOID(schedule_channels_last(s, p, tiles, lanes, threads));
  return s;
}

}  // namespace

Result<Schedule> hand_schedule(const Shape& shape, const Target& target, int threads) {
  if (target.vector_registers < 32) return hand_schedule_of_few_registers(shape, target, threads);
  const int64_t lanes = target.vector_lanes(4);
  const bool far_caches = target.caches.size() > 1 && target.caches[1].size_bytes >= (2 << 20);
  if (shape.matmul) {
    const MatmulProblem& p = *shape.matmul;
    Schedule s(matmul_func(p));
    s.set_target(std::make_shared<const Target>(target));
    GemmTiles tiles{.rows = 6, .vectors = 4, .ask_rows = p.m * p.k > (2 << 20)};
    if (p.m == 197 && !far_caches) tiles = {.rows = 14, .vectors = 2};
    if (p.m == 40) tiles = {.rows = 8, .vectors = 2};
    if (p.m == 77) tiles = {.rows = 7, .vectors = 3};
    if (far_caches) {
      // A core with much L2 waits for it, too: vectors that come from there are asked for.
      tiles.near = 8;
      tiles.unroll = 4;
      if (p.m == 40) tiles.vectors = 3;
      if (p.m == 77) tiles.rows = 13, tiles.vectors = 2;
      // All of B stays in L2, or half a mebibyte at a time, and the rows of a tile in L1.
      if (p.m >= 512 && p.m <= 1024) tiles.rows_outside = true;
      if (p.k * p.n * 4 <= target.caches[1].size_bytes / 2)
        tiles.rows = 14, tiles.vectors = 2;
      else if (tiles.rows_outside)
        tiles.block = 256;
    }
    FETTLE_TRY_VOID(schedule_gemm(s, tiles, lanes, threads));
    return s;
  }
  const ConvProblem& p = *shape.conv;
  Schedule s(convolution_func(p));
  s.set_target(std::make_shared<const Target>(target));
  ConvTiles tiles;
  // Small images: the panel of weights stays in L2 while the rows pass by, and all channels of a tap are one long loop.
  // Seven pixels do not keep a core busy while their weights arrive, so these are asked for.
  if (p.channels_in < lanes || p.width_out() == 7 || (p.width_out() == 14 && p.kernel > 1)) {
    ConvTiles narrow = {.pixels = 4, .vectors = 4}, row = {.pixels = 14, .vectors = 2};
    // Panels of two vectors leave room beside them in an L2 of a mebibyte, and more of it has room for three.
    if (p.width_out() == 7 && !far_caches) row = {.pixels = 7, .vectors = 2};
    if (p.width_out() == 7 && far_caches) row = {.pixels = 7, .vectors = 3, .prefetch = 64};
    if (far_caches || p.width_out() == 7) row.near = 8;
    FETTLE_TRY_VOID(schedule_channels_last(s, p, p.channels_in < lanes ? narrow : row, lanes, threads));
    return s;
  }
  if (far_caches) tiles.near = 8;
  if (p.kernel == 1 && p.stride == 1) tiles = {.pixels = 8, .flat = true};
  FETTLE_TRY_VOID(schedule_convolution(s, p, tiles, lanes, threads));
  return s;
}

}  // namespace fettle::bench
