#include "codegen/llvm/lane_offsets.h"

#include <gtest/gtest.h>

namespace fettle::llvm_backend {
namespace {

using Offsets = std::vector<int64_t>;

Offsets offsets_of(const Expr& index) {
  const auto lanes = lane_offsets(index);
  return lanes ? Offsets(lanes->at.begin(), lanes->at.end()) : Offsets{};
}

TEST(LaneOffsets, OfSumsAndMultiples) {
  const Expr x = make_var("x"), lanes = ramp(x, Expr(1), 4);
  EXPECT_EQ(offsets_of(lanes), (Offsets{0, 1, 2, 3}));
  EXPECT_EQ(offsets_of(broadcast(x, 4) - lanes), (Offsets{0, -1, -2, -3}));
  EXPECT_EQ(offsets_of(broadcast(Expr(3), 4) * lanes + ramp(x, Expr(2), 4)), (Offsets{0, 5, 10, 15}));
  EXPECT_EQ(offsets_of(broadcast(x, 4) * lanes), Offsets{});  // times what is not known
  EXPECT_EQ(offsets_of(ramp(Expr(0), x, 4)), Offsets{});      // as far apart as is not known
  EXPECT_EQ(offsets_of(ramp(Expr(0), Expr(1), 4) * ramp(Expr(0), Expr(1), 4)), Offsets{});
}

TEST(LaneOffsets, OfQuotientsWhoseRemainderIsKnown) {
  const Expr x = make_var("x");
  const Expr two = broadcast(Expr(2), 4), three = broadcast(Expr(3), 4);
  EXPECT_EQ(offsets_of(floordiv(ramp(x * 8, Expr(1), 4), two)), (Offsets{0, 0, 1, 1}));
  EXPECT_EQ(offsets_of(floordiv(ramp(x * 8 + 1, Expr(1), 4), two)), (Offsets{0, 1, 1, 2}));
  EXPECT_EQ(offsets_of(floormod(ramp(x * 3 - 1, Expr(1), 4), three)), (Offsets{2, 0, 1, 2}));
  EXPECT_EQ(offsets_of(floordiv(ramp(min(x * 16, Expr(38)), Expr(1), 4), two)), (Offsets{0, 0, 1, 1}));
  EXPECT_EQ(offsets_of(floordiv(ramp(min(x * 16, Expr(37)), Expr(1), 4), two)), Offsets{});
  EXPECT_EQ(offsets_of(floordiv(ramp(x, Expr(1), 4), two)), Offsets{});
  EXPECT_EQ(offsets_of(floordiv(ramp(x * 8, Expr(1), 4), broadcast(x, 4))), Offsets{});
}

TEST(LaneWindows, CoverWhatIsReadAndNoMore) {
  // Every lane lies in its window, and windows between the first and the last lane.
  for (const Offsets& offsets : {Offsets{0, 1, 2, 3}, Offsets{3, 2, 1, 0}, Offsets{0, 2, 4, 6, 8, 10, 12, 14},
                                 Offsets{0, 0, 1, 1}, Offsets{0, 100, 1, 101}, Offsets{-7}, Offsets{5, 5, 5}})
    for (const int64_t widest : {1, 4, 8, 16}) {
      const LaneWindows windows = lane_windows(offsets, widest, nullptr);
      EXPECT_LE(windows.size, widest);
      for (const int64_t first : windows.first) {
        EXPECT_GE(first, *std::ranges::min_element(offsets));
        EXPECT_LE(first + windows.size - 1, *std::ranges::max_element(offsets));
      }
      for (size_t i = 0; i < offsets.size(); ++i) {
        EXPECT_LT(windows.place[i], windows.size);
        EXPECT_EQ(windows.first[static_cast<size_t>(windows.window[i])] + windows.place[i], offsets[i]);
      }
    }
  EXPECT_EQ(lane_windows({{0, 2, 4, 6, 8, 10, 12, 14}}, 8, nullptr).first.size(), 2u);
  EXPECT_EQ(lane_windows({{0, 0, 1, 1, 2, 2, 3, 3}}, 8, nullptr).first.size(), 1u);
}

TEST(LaneWindows, LanesThatAreOffSeeNothing) {
  const std::vector<bool> first_two = {true, true, false, false}, none(4, false);
  const LaneWindows windows = lane_windows({{10, 12, -100, 1000}}, 16, &first_two);
  EXPECT_EQ(windows.first.size(), 2u);
  EXPECT_EQ(windows.window[2], -1);
  EXPECT_TRUE(lane_windows({{0, 1, 2, 3}}, 16, &none).first.empty());
}

}  // namespace
}  // namespace fettle::llvm_backend
