#include "codegen/relayout.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

Buffer with_layout(std::vector<Expr> physical, std::vector<Expr> logical, IndexMap map) {
  return edited(make_buffer("X", std::move(physical)), [&](BufferNode& b) {
    auto layout = make_ref<Layout>();
    layout->logical_shape = logical;
    layout->to_physical = map;
    b.layout = layout;
  });
}

std::vector<float> counting(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i + 1);
  return v;
}

void expect_round_trip(const Relayout& r) {
  const std::vector<float> logical = counting(r.logical_elems());
  std::vector<float> physical(static_cast<size_t>(r.physical_elems()), -1.0f), back(logical.size());
  r.to_physical(logical.data(), physical.data());
  r.to_logical(physical.data(), back.data());
  EXPECT_EQ(back, logical);
}

TEST(Relayout, PlainIsACopy) {
  auto r = Relayout::make(*make_buffer("X", {3, 5}));
  ASSERT_TRUE(r);
  EXPECT_EQ(r->physical_elems(), 15);
  expect_round_trip(*r);
}

TEST(Relayout, BlocksOfChannelsWithZeroedPadLanes) {
  const Var c = make_var("c"), w = make_var("w");
  auto r = Relayout::make(*with_layout({2, 3, 4}, {6, 3}, {{c, w}, {floordiv(c, 4), w, floormod(c, 4)}}));
  ASSERT_TRUE(r);
  EXPECT_EQ(r->logical_elems(), 18);
  EXPECT_EQ(r->physical_elems(), 24);
  expect_round_trip(*r);
  const std::vector<float> logical = counting(18);
  std::vector<float> physical(24, -1.0f);
  r->to_physical(logical.data(), physical.data());
  EXPECT_EQ(physical[(0 * 3 + 2) * 4 + 1], logical[1 * 3 + 2]);
  EXPECT_EQ(physical[(1 * 3 + 0) * 4 + 1], logical[5 * 3 + 0]);
  EXPECT_EQ(physical[(1 * 3 + 0) * 4 + 2], 0.0f);
  EXPECT_EQ(physical[(1 * 3 + 2) * 4 + 3], 0.0f);
}

TEST(Relayout, MapsThatMixDimensions) {
  const Var i = make_var("i"), j = make_var("j");
  auto r = Relayout::make(*with_layout({2, 6}, {3, 4}, {{i, j}, {floordiv(i * 4 + j, 6), floormod(i * 4 + j, 6)}}));
  ASSERT_TRUE(r);
  expect_round_trip(*r);
}

TEST(Relayout, StepsTakeNoMemory) {
  const auto large = Relayout::make(*make_buffer("X", {int64_t{1} << 38}));
  ASSERT_TRUE(large);
  EXPECT_TRUE(large->is_identity());
  // A layout that leaves all in place is told apart from none by nobody.
  const Var i = make_var("i"), j = make_var("j");
  const auto same = Relayout::make(*with_layout({3, 5}, {3, 5}, {{i, j}, {i, j}}));
  EXPECT_EQ(same->digest(), Relayout::make(*make_buffer("X", {3, 5}))->digest());
}

TEST(Relayout, SizesThatAreParameters) {
  const Var n = make_var("n");
  const Buffer buffer = make_buffer("X", {Expr(n) * 2, 3});
  EXPECT_EQ(Relayout::make(*buffer).error().code, ErrorCode::E301);
  auto r = Relayout::make(*buffer, {{n.get(), 5}});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->logical_shape(), (std::vector<int64_t>{10, 3}));
}

TEST(Relayout, RefusesWhatDoesNotFit) {
  const Var i = make_var("i");
  EXPECT_EQ(Relayout::make(*with_layout({3}, {4}, {{i}, {i}})).error().code, ErrorCode::E709);
  EXPECT_EQ(Relayout::make(*make_buffer("X", {int64_t{1} << 30, int64_t{1} << 30})).error().code, ErrorCode::E709);
  EXPECT_EQ(Relayout::make(*make_buffer("X", {-1})).error().code, ErrorCode::E709);
}

}  // namespace
}  // namespace fettle
