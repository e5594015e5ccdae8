// A convolution's traces by hand, in blocked layouts, checked by the interpreter after every step.

#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_padding.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::map_of;
using testing::schedule_from;
using testing::TestSchedule;

// 3x3 convolution with stride 2 and a border of 1; 20 output channels do not fill the blocks of 16.
constexpr const char* kConv = R"(
func conv(I: f32[1, 32, 11, 13] free_layout, W: f32[20, 32, 3, 3] constant, bias: f32[20] constant, O: f32[1, 20, 6, 7] output free_layout):
  alloc P: f32[1, 32, 13, 15]
  alloc C: f32[1, 20, 6, 7]
  for n in 1:
    for c in 32:
      for h in 13:
        for w in 15:
          block P(vn: spatial[1] = n, vc: spatial[32] = c, vh: spatial[13] = h, vw: spatial[15] = w):
            reads I[vn, vc, vh - 1, vw - 1]
            writes P[vn, vc, vh, vw]
            P[vn, vc, vh, vw] = select(1 <= vh && vh < 12 && 1 <= vw && vw < 14, I[vn, vc, vh - 1, vw - 1], 0.0)
  for n in 1:
    for o in 20:
      for y in 6:
        for x in 7:
          for c in 32:
            for kh in 3:
              for kw in 3:
                block C(vn: spatial[1] = n, vo: spatial[20] = o, vy: spatial[6] = y, vx: spatial[7] = x, vc: reduce[32] = c, vkh: reduce[3] = kh, vkw: reduce[3] = kw):
                  reads P[vn, vc, vy * 2 + vkh, vx * 2 + vkw], W[vo, vc, vkh, vkw]
                  writes C[vn, vo, vy, vx]
                  init:
                    C[vn, vo, vy, vx] = 0.0
                  C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + P[vn, vc, vy * 2 + vkh, vx * 2 + vkw] * W[vo, vc, vkh, vkw]
  for n in 1:
    for o in 20:
      for y in 6:
        for x in 7:
          block O(vn: spatial[1] = n, vo: spatial[20] = o, vy: spatial[6] = y, vx: spatial[7] = x):
            reads C[vn, vo, vy, vx], bias[vo]
            writes O[vn, vo, vy, vx]
            O[vn, vo, vy, vx] = max(C[vn, vo, vy, vx] + bias[vo], 0.0)
)";

constexpr const char* kChannelBlocks = "(n, c, h, w) -> (n, c // 16, h, w, c % 16)";

// Blocked layouts for input and output, and weights packed for tiles of 32 output channels.
void choose_layouts(TestSchedule& s, BlockRef pad, BlockRef conv, BlockRef relu) {
  ASSERT_OK(transform_layout(s, {pad, 0, "read", map_of(kChannelBlocks)}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(transform_layout(s, {relu, 0, "write", map_of(kChannelBlocks)}));
  EXPECT_SAME_RESULT(s);
  auto packed = cache_read(s, {conv, 1, "global"});
  ASSERT_OK(packed);
  ASSERT_OK(
      transform_layout(s, {*packed, 0, "write", map_of("(o, c, h, w) -> (o // 32, c // 16, h, w, c % 16, o % 32)")}));
  EXPECT_SAME_RESULT(s);
}

TEST(ConvTrace, GuardInTheLoad) {
  auto s = schedule_from(kConv);
  BlockRef pad = s.block("P"), conv = s.block("C"), relu = s.block("O");
  choose_layouts(s, pad, conv, relu);
  ASSERT_OK(compute_inline(s, {pad}));
  EXPECT_SAME_RESULT(s);
  auto tile = cache_write(s, {conv, 0, "register"});
  ASSERT_OK(tile);
  ASSERT_OK(reverse_compute_inline(s, {relu}));
  EXPECT_SAME_RESULT(s);

  auto loops = s.loops(conv);  // n o y x c kh kw
  auto o = split(s, {loops[1], {kInfer, 2, 16}, Tail::kMask});
  auto x = split(s, {loops[3], {kInfer, 3}, Tail::kBalance});
  auto c = split(s, {loops[4], {kInfer, 16}});
  ASSERT_OK(o);
  ASSERT_OK(x);
  ASSERT_OK(c);
  ASSERT_OK(
      reorder(s, {{(*o)[0], loops[2], (*x)[0], (*c)[0], loops[5], (*c)[1], loops[6], (*x)[1], (*o)[1], (*o)[2]}}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(reverse_compute_at(s, {*tile, (*x)[0]}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(unroll(s, {loops[6]}));
  ASSERT_OK(unroll(s, {(*x)[1]}));
  ASSERT_OK(unroll(s, {(*o)[1]}));
  ASSERT_OK(vectorize(s, {(*o)[2]}));
  ASSERT_OK(decompose_reduction(s, {conv, (*c)[0]}));
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  EXPECT_GOLDEN(s.func());
}

TEST(ConvTrace, PaddedRowsInCache) {
  auto s = schedule_from(kConv);
  BlockRef pad = s.block("P"), conv = s.block("C"), relu = s.block("O");
  choose_layouts(s, pad, conv, relu);
  ASSERT_OK(transform_layout(s, {pad, 0, "write", map_of(kChannelBlocks)}));
  EXPECT_SAME_RESULT(s);
  auto loops = s.loops(conv);
  auto o = split(s, {loops[1], {kInfer, 32}, Tail::kMask});
  auto y = split(s, {loops[2], {kInfer, 4}, Tail::kPartition});
  ASSERT_OK(o);
  ASSERT_OK(y);
  ASSERT_OK(reorder(s, {{(*y)[0], (*o)[0], (*y)[1], loops[3], loops[4], loops[5], loops[6], (*o)[1]}}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(compute_at(s, {pad, (*y)[0]}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(reverse_compute_at(s, {relu, (*o)[0]}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(decompose_padding(s, {pad, s.loops(pad)[2]}));
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  EXPECT_GOLDEN(s.func());
}

TEST(ConvTrace, TileAcrossRows) {
  auto s = schedule_from(kConv);
  BlockRef pad = s.block("P"), conv = s.block("C"), relu = s.block("O");
  choose_layouts(s, pad, conv, relu);
  auto tile = cache_write(s, {conv, 0, "register"});
  ASSERT_OK(tile);
  ASSERT_OK(reverse_compute_inline(s, {relu}));
  // Points of the image in one dimension, so that a tile of registers has constant indices.
  ASSERT_OK(transform_layout(s, {conv, 0, "write", map_of("(n, o, y, x) -> (n, o, y * 7 + x)")}));
  EXPECT_SAME_RESULT(s);
  auto loops = s.loops(conv);
  auto o = split(s, {loops[1], {kInfer, 16}, Tail::kMask});
  ASSERT_OK(o);
  ASSERT_OK(reorder(s, {{loops[2], loops[3], loops[4], loops[5], loops[6], (*o)[1]}}));
  auto point = fuse(s, {{loops[2], loops[3]}});
  ASSERT_OK(point);
  auto p = split(s, {*point, {kInfer, 10}, Tail::kBalance});
  ASSERT_OK(p);
  ASSERT_OK(reorder(s, {{(*p)[0], loops[4], loops[5], loops[6], (*p)[1], (*o)[1]}}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(reverse_compute_at(s, {*tile, (*p)[0]}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(decompose_reduction(s, {conv, loops[4]}));
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  EXPECT_GOLDEN(s.func());
}

}  // namespace
}  // namespace fettle
