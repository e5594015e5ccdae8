#include "tune/parts/winograd.h"

#include <gtest/gtest.h>

#include "schedule/reformulation.h"
#include "schedule/testing.h"
#include "tune/parts/auto_inline.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

using testing::schedule_from;

const Target& avx512() {
  static const Target target = parse_target("x86-64-avx512").value();
  return target;
}

TEST(WinogradParts, AreFoundByTheirNotes) {
  Schedule s(testing::conv_workload({.n = 2, .h = 10, .w = 12, .ic = 16, .oc = 20, .epilogue = true}));
  const auto convolution = winograd_convolution(s.func());
  ASSERT_EQ(convolution, "O");
  EXPECT_FALSE(winograd_parts(s.func(), "O"));
  const auto parts = replace_by_winograd(s, "O", 4);
  ASSERT_OK(parts);
  EXPECT_EQ(parts->weights, "O_weights");
  EXPECT_EQ(parts->rows, "O_rows");
  EXPECT_EQ(parts->tiles, "O_tiles");
  EXPECT_EQ(parts->product, "O_product");
  EXPECT_EQ(parts->columns, "O_columns");
  EXPECT_EQ(parts->outputs, 4);
  EXPECT_EQ(parts->width, parts->height + 1);
  EXPECT_EQ(winograd_strips(s.func(), *parts), std::vector<int64_t>{1});  // of three rows of tiles
  EXPECT_FALSE(winograd_convolution(s.func()));
}

// What a transform makes is read several times: it stays.
TEST(WinogradParts, AreNotInlined) {
  Schedule s(testing::conv_workload({.h = 8, .w = 8, .ic = 16, .oc = 16, .epilogue = true}));
  ASSERT_OK(replace_by_winograd(s, "O", 2));
  PreferringDecider decider;
  ASSERT_OK(auto_inline(s, avx512(), decider));
  const auto parts = winograd_parts(s.func(), "O");
  ASSERT_TRUE(parts);
  const auto placed = place_transforms(s, avx512(), *parts, std::nullopt);
  ASSERT_OK(placed);
  EXPECT_EQ(placed->last, "Y");
}

TEST(OpenExtents, Winograd) {
  auto s = schedule_from(R"(
func conv(X: f32[n, 10, 10, 16], W: f32[3, 3, 16, 16] constant, O: f32[n, 8, 8, 16] output, n: i64 in 1..4):
  for b in n:
    for h in 8:
      for w in 8:
        for o in 16:
          for r in 3:
            for q in 3:
              for c in 16:
                block O(vb: spatial[n] = b, vh: spatial[8] = h, vw: spatial[8] = w, vo: spatial[16] = o, vr: reduce[3] = r, vq: reduce[3] = q, vc: reduce[16] = c):
                  reads X[vb, vh + vr, vw + vq, vc], W[vr, vq, vc, vo]
                  writes O[vb, vh, vw, vo]
                  init:
                    O[vb, vh, vw, vo] = 0.0
                  O[vb, vh, vw, vo] = O[vb, vh, vw, vo] + X[vb, vh + vr, vw + vq, vc] * W[vr, vq, vc, vo]
)");
  EXPECT_FALSE(winograd_convolution(s.func()));
  const auto parts = replace_by_winograd(s, "O", 2);
  ASSERT_OK(parts);
  const auto placed = place_transforms(s, avx512(), *parts, std::nullopt);
  ASSERT_TRUE(testing::fails_with(placed, ErrorCode::E230));
  EXPECT_NE(placed.error().to_string().find("O has other loops"), std::string::npos);
}

}  // namespace
}  // namespace fettle
