#include "tune/parts/winograd.h"

#include <gtest/gtest.h>

#include "schedule/reformulation.h"
#include "schedule/testing.h"
#include "tune/parts/auto_inline.h"
#include "tune/space/open_workloads.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

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
  const std::vector<IntParam> sizes = {testing::size("n", 0, 4), testing::size("h", 1, 64), testing::size("w", 1, 64)};
  const Func open = testing::open_conv(
      {.n = sizes[0].var, .h = sizes[1].var, .w = sizes[2].var, .ic = 16, .oc = 16, .relu = false}, sizes);
  for (const bool in_strips : {false, true}) {
    Schedule s(open);
    ASSERT_EQ(winograd_convolution(s.func()), "O");
    const auto parts = replace_by_winograd(s, "O", 2);
    ASSERT_OK(parts);
    // One row of tiles divides any number of them.
    EXPECT_EQ(winograd_strips(s.func(), *parts), std::vector<int64_t>{1});
    PreferringDecider decider;
    ASSERT_OK(auto_inline(s, avx512(), decider));
    const auto placed = place_transforms(s, avx512(), *parts, in_strips ? std::optional<IntRef>(1) : std::nullopt);
    ASSERT_OK(placed);
    EXPECT_EQ(placed->around.size(), in_strips ? 2 : 0);
    EXPECT_EQ(placed->outputs.size(), 5);
  }
}

// Channels are counted when the program is compiled.
TEST(OpenExtents, WinogradOfOpenChannelsIsNone) {
  const std::vector<IntParam> sizes = {testing::size("c", 16, 64)};
  const te::Tensor x = te::placeholder({1, 10, 10, sizes[0].var}, kF32, "X"),
                   w = te::placeholder({3, 3, sizes[0].var, 16}, kF32, "W");
  const te::ReduceAxis kh = te::reduce_axis(3, "kh"), kw = te::reduce_axis(3, "kw"),
                       c = te::reduce_axis(sizes[0].var, "c");
  const te::Tensor o = te::compute(
      {1, 8, 8, 16},
      [&](const std::vector<Var>& i) {
        return te::sum(x(Expr(i[0]), i[1] + kh, i[2] + kw, Expr(c)) * w(Expr(kh), Expr(kw), Expr(c), Expr(i[3])),
                       {kh, kw, c});
      },
      "O");
  EXPECT_FALSE(winograd_convolution(te::create_func(
      "conv", {x, w}, {o}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}, .int_params = sizes})));
}

}  // namespace
}  // namespace fettle
