// Register tiles, as the default chooses them.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "schedule/testing.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"
#include "tune/space/testing.h"

namespace fettle {
namespace {

using testing::avx512;
using testing::choices;
using testing::decided;
using testing::decision_of;
using testing::expect_same;
using testing::NamedWorkload;
using testing::small_workloads;

TEST(DefaultSchedule, OfAMatmul) {
  const auto s = default_schedule(testing::matmul_workload(197, 768, 768, false, false, true, true), avx512(), 2);
  ASSERT_OK(s);
  EXPECT_GOLDEN(to_text(s->trace()) + "\n" + to_text(s->func()));
}

TEST(DefaultSchedule, OfAConvolution) {
  const auto s = default_schedule(testing::conv_workload({.h = 28, .w = 28, .ic = 64, .oc = 120, .epilogue = true}),
                                  avx512(), 2, nullptr, 0);
  ASSERT_OK(s);
  EXPECT_GOLDEN(to_text(s->trace()) + "\n" + to_text(s->func()));
}

// The channels of a group read the same ones: no sum is spread over lanes for that.
TEST(DefaultSchedule, GroupsAreTilesOfTheirOwn) {
  const te::Tensor x = te::placeholder({12, 64}, kF32, "X"), w = te::placeholder({3, 32, 64}, kF32, "W");
  const te::ReduceAxis k = te::reduce_axis(3, "k"), c = te::reduce_axis(32, "c");
  const te::Tensor y = te::compute(
      {10, 64},
      [&](const std::vector<Var>& i) -> te::Body {
        return te::sum(x(i[0] + k, floordiv(Expr(i[1]), Expr(32)) * Expr(32) + Expr(c)) * w(k, c, i[1]), {k, c});
      },
      "Y", {"i", "j"});
  const Func func = te::create_func("groups", {x, w}, {y}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_EQ(to_text(s->trace()).find("split_reduction"), std::string::npos);
  expect_same(func, *s);
}

// Whatever the size of a group, its weights are read from panels.
TEST(DefaultSchedule, WeightsOfGroupsArePacked) {
  constexpr int64_t kGroup = 22;
  const te::Tensor x = te::placeholder({40, 64}, kF32, "X"), w = te::placeholder({2 * kGroup, 32}, kF32, "W");
  const te::ReduceAxis c = te::reduce_axis(32, "c");
  const te::Tensor y =
      te::compute({40, 2 * kGroup},
                  [&](const std::vector<Var>& i) -> te::Body {
                    return te::sum(x(i[0], floordiv(Expr(i[1]), Expr(kGroup)) * Expr(32) + Expr(c)) * w(i[1], c), {c});
                  },
                  "Y", {"i", "j"});
  const Func func = te::create_func("groups", {x, w}, {y}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_NE(to_text(s->func()).find("W_global"), std::string::npos) << to_text(s->func());
  expect_same(func, *s);
}

// Channels first, lanes are pixels: all rows of a group share the vectors that they read.
TEST(DefaultSchedule, RowsOfAGroupShareTheirVectors) {
  const Func func = testing::conv_workload(
      {.h = 9, .w = 40, .ic = 60, .oc = 90, .kernel = 1, .padding = 0, .groups = 3, .channels_last = false});
  EXPECT_EQ(decided(func, 1, "groups"), 1);
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_NE(to_text(s->trace()).find("// 30"), std::string::npos) << to_text(s->trace());
  expect_same(func, *s);
}

// Long rows of short sums: of what the second-level cache holds of the other factor, all rows are made before the next.
TEST(DefaultSchedule, WritesLongRunsOfEachRow) {
  const auto product = [](int64_t columns) {
    return testing::matmul_workload(256, columns, 64, false, false, false, false);
  };
  EXPECT_EQ(decided(product(1024), 1, "rows_outside"), 0) << "the result stays in the second-level cache";
  EXPECT_EQ(decided(product(20000), 1, "rows_outside"), 2);
}

// Short sums into a large matrix: the lines that are written come from memory, so rows are written one by one.
TEST(DefaultSchedule, WritesWholeRowsWhereTilesWouldWaitForTheirLines) {
  const auto product = [](int64_t k) { return testing::matmul_workload(2000, 1000, k, false, false, false, false); };
  EXPECT_EQ(decided(product(64), 1, "rows_outside"), 1);
  EXPECT_EQ(decided(product(64), 1, "pack"), 0);
  EXPECT_EQ(decided(product(512), 1, "pack"), 1);
}

// Rows of 2048 columns fall into few sets of the caches: a right factor that is no constant is read from panels, each
// filled before its tiles. Two tiles are too few to pay for that.
TEST(DefaultSchedule, PacksARightFactorThatCachesDoNotHold) {
  const auto product = [](int64_t m, int64_t n, int64_t k) {
    return testing::matmul_workload(m, n, k, false, false, false, false);
  };
  EXPECT_EQ(decided(product(128, 2048, 512), 1, "pack"), 1);
  EXPECT_EQ(decided(product(128, 1000, 200), 1, "pack"), 0);
  const auto few = default_schedule(product(16, 2048, 512), avx512(), 1);
  ASSERT_OK(few);
  EXPECT_EQ(choices(*few).find("/pack"), std::string::npos);
}

// With rows, columns and steps left over; by two threads; with the reduction in blocks; rows outside of panels.
TEST(DefaultSchedule, PackedRightFactorsAreTheSame) {
  for (const auto& [m, n, k] : {std::tuple{48, 64, 20}, {37, 38, 33}, {39, 70, 260}})
    for (const int threads : {1, 2})
      for (const char* outside : {"0", "1"})
        for (const char* depth : {"0", "256"}) {
          const DecisionMap decisions = {{"register_tiling/C/pack", "1"},
                                         {"register_tiling/C/tile", "12x2"},
                                         {"register_tiling/C/rows_outside", outside},
                                         {"register_tiling/C/depth", depth}};
          const Func func = testing::matmul_workload(m, n, k, false, false, false, n % 2 == 0);
          const auto s =
              rule_space().generate(func, avx512(), threads, 1, std::make_shared<const DecisionMap>(decisions));
          ASSERT_OK(s);
          EXPECT_NE(choices(*s).find("pack: 1"), std::string::npos) << choices(*s);
          expect_same(func, *s);
        }
}

// A left factor that lies transposed has a line for each step of a tile: many panels read it from a transposed copy.
TEST(DefaultSchedule, TransposesALeftFactorWhoseStepsLieApart) {
  const auto product = [](int64_t n, int64_t k, bool transposed) {
    return testing::matmul_workload(240, n, k, transposed, false, true, false);
  };
  EXPECT_EQ(decided(product(384, 1024, true), 1, "pack_rows"), 1);
  EXPECT_EQ(decided(product(384, 64, true), 1, "pack_rows"), 0) << "its lines stay in the first-level cache";
  for (const Func& without : {product(384, 1024, false), product(64, 1024, true)}) {
    const auto s = default_schedule(without, avx512(), 1);
    ASSERT_OK(s);
    EXPECT_EQ(choices(*s).find("/pack_rows"), std::string::npos) << choices(*s);
  }
}

TEST(DefaultSchedule, TransposedLeftFactorsAreTheSame) {
  for (const auto& [m, n, k] : {std::tuple{48, 640, 20}, {37, 646, 33}, {39, 710, 260}})
    for (const int threads : {1, 2}) {
      const DecisionMap decisions = {{"register_tiling/C/pack", "1"},
                                     {"register_tiling/C/tile", "12x2"},
                                     {"register_tiling/C/pack_rows", "1"}};
      const Func func = testing::matmul_workload(m, n, k, true, false, false, n % 2 == 0);
      const auto s = rule_space().generate(func, avx512(), threads, 1, std::make_shared<const DecisionMap>(decisions));
      ASSERT_OK(s);
      EXPECT_NE(choices(*s).find("pack_rows: 1"), std::string::npos) << choices(*s);
      expect_same(func, *s);
    }
}

// Threads that took panels of 72 channels would write into the same cache lines.
TEST(DefaultSchedule, DealsOutRowsWhereThreadsWouldShareLines) {
  const auto conv = [](int64_t channels) {
    return testing::conv_workload({.h = 12, .w = 12, .ic = 20, .oc = channels, .kernel = 1, .padding = 0});
  };
  EXPECT_EQ(decided(conv(72), 2, "rows_outside"), 1);
  EXPECT_EQ(decided(conv(72), 1, "rows_outside"), 0);
  EXPECT_EQ(decided(conv(64), 2, "rows_outside"), 0);
}

// The few channels of a picture have all taps of a row inside of them, in a tile that leaves room for what its windows
// share.
TEST(DefaultSchedule, OfAPicture) {
  const auto conv = [](int64_t channels) {
    return testing::conv_workload({.h = 96, .w = 96, .ic = channels, .oc = 32, .stride = 2});
  };
  EXPECT_EQ(decided(conv(3), 2, "taps_inside"), 1);
  const std::string tile = decision_of(conv(3), 2, "tile", avx512()).value();
  int rows = 0, vectors = 0;
  ASSERT_EQ(std::sscanf(tile.c_str(), "%dx%d", &rows, &vectors), 2) << tile;
  EXPECT_LE(rows * vectors, 22);
  EXPECT_EQ(decided(conv(16), 2, "taps_inside"), 0);
}

// The taps of many channels are no loop of few channels, wherever they stand: tiles are as large as registers allow. Of
// short vectors, blocks of channels would make loops as short.
TEST(DefaultSchedule, OfAConvolutionWhoseLayoutIsFree) {
  const auto avx2 = std::make_shared<const Target>(parse_target("x86-64-avx2").value());
  const Func func =
      testing::conv_workload({.h = 28, .w = 28, .ic = 64, .oc = 64, .channels_last = false, .free_layout = true});
  EXPECT_EQ(decided(func, 1, "layout"), 1);
  EXPECT_EQ(decision_of(func, 1, "tile", avx512()), "14x2");
  EXPECT_EQ(decided(func, 1, "layout", avx2), 0);
  EXPECT_EQ(decision_of(func, 1, "tile", avx2), "6x2");
}

// Weights from beyond L2 are asked for a step early, where a step takes long enough for that.
TEST(DefaultSchedule, OfASmallImage) {
  constexpr int64_t kNextStep = 2;
  Target small = parse_target("x86-64-avx2").value();
  small.caches = {{32 << 10, 8}, {512 << 10, 8}, {32 << 20, 16}};
  const auto avx2 = std::make_shared<const Target>(small);
  const Func func = testing::conv_workload({.h = 7, .w = 7, .ic = 512, .oc = 512, .free_layout = true});
  EXPECT_EQ(decided(func, 1, "prefetch"), kNextStep);
  EXPECT_NE(decided(func, 1, "prefetch", avx2), kNextStep);
  // Tiles of three vectors, although their panels come from beyond L2.
  EXPECT_TRUE(decision_of(func, 1, "tile", avx2).value().ends_with("x3"));
}

// Panel by panel, where the windows of all panels are more than the first-level cache holds, and vectors are no
// whole lines.
TEST(DefaultSchedule, OfDepthwiseWindows) {
  Target target = *avx512();
  target.caches = {{32 << 10, 8}, {1 << 20, 8}, {32 << 20, 16}};
  const auto shared = std::make_shared<const Target>(target);
  const auto order = [&](int64_t size, int64_t channels, int64_t kernel) {
    return decided(testing::conv_workload({.h = size,
                                           .w = size,
                                           .ic = channels,
                                           .oc = channels,
                                           .kernel = kernel,
                                           .padding = kernel / 2,
                                           .groups = channels}),
                   2, "rows_outside", shared);
  };
  EXPECT_EQ(order(27, 120, 5), 0);
  EXPECT_EQ(order(56, 128, 5), 1);   // whole lines, of an image that fills the second-level cache
  EXPECT_EQ(order(112, 24, 3), 1);   // fits
  EXPECT_EQ(order(109, 139, 5), 1);  // one panel's windows do not fit either
}

// Groups that are no whole vectors become loops: all lanes of a group multiply one element. The padding is inlined.
TEST(DefaultSchedule, OfGroupsOfChannels) {
  for (const auto& [channels, split] : {std::pair{64, 0}, {24, 1}, {12, 1}, {8, 1}, {4, 1}, {2, -1}}) {
    const Func func =
        testing::conv_workload({.h = 7, .w = 9, .ic = 4 * channels, .oc = 4 * channels, .groups = 4, .epilogue = true});
    EXPECT_EQ(decided(func, 1, "groups"), split) << channels;
    EXPECT_EQ(decided(func, 1, "keep"), 0) << channels;
    const auto s = default_schedule(func, avx512(), 2);
    ASSERT_OK(s);
    expect_same(func, *s);
  }
}

// Several steps at once, but where sums of single vectors take almost all registers.
TEST(DefaultSchedule, OfStepsOfOneVector) {
  const auto avx2 = std::make_shared<const Target>(parse_target("x86-64-avx2").value());
  const auto product = [](int64_t rows) { return testing::matmul_workload(rows, 8, 300, false, false, true, false); };
  EXPECT_EQ(decided(product(8), 1, "steps", avx2), 4);
  EXPECT_EQ(decided(product(14), 1, "steps", avx2), 1);
}

// Several steps at once where panels come from a second-level cache that is far, and one by one from a near one.
TEST(DefaultSchedule, OfStepsThatWait) {
  const auto with_l2 = [](int64_t bytes) {
    Target target = *avx512();
    target.caches = {{48 << 10, 12}, {bytes, 16}, {32 << 20, 16}};
    return std::make_shared<const Target>(target);
  };
  const Func product = testing::matmul_workload(512, 512, 512, false, false, true, false);
  EXPECT_EQ(decided(product, 1, "steps", with_l2(1 << 20)), 1);
  EXPECT_EQ(decided(product, 1, "steps", with_l2(2 << 20)), 4);
}

// One row: single steps where the second-level cache alone holds what they read.
TEST(DefaultSchedule, OfStepsThatStream) {
  const auto product = [](int64_t columns) {
    return testing::matmul_workload(1, columns, 256, false, false, true, false);
  };
  EXPECT_EQ(decided(product(32), 1, "steps"), 4);
  EXPECT_EQ(decided(product(1024), 1, "steps"), 1);
  EXPECT_EQ(decided(product(4096), 1, "steps"), 4);
}

// Taps and channels that lie in one run of the weights stay two loops where windows of an image are what fills vectors.
TEST(DefaultSchedule, OfAConvolutionWithChannelsFirst) {
  const Func func = [] {
    te::Tensor x = te::placeholder({64, 501}, kF32, "X"), w = te::placeholder({96, 64, 9}, kF32, "W");
    te::ReduceAxis c = te::reduce_axis(64, "c"), k = te::reduce_axis(9, "k");
    te::Tensor p = te::compute(
        {64, 509},
        [&](const std::vector<Var>& i) {
          return select(logical_and(le(Expr(4), i[1]), lt(i[1], Expr(505))), x(i[0], i[1] - Expr(4)), float_imm(0));
        },
        "P");
    te::Tensor y = te::compute(
        {96, 501}, [&](const std::vector<Var>& i) { return te::sum(p(c, i[1] + k) * w(i[0], c, k), {c, k}); }, "Y");
    return te::create_func("conv", {x, w}, {y}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
  }();
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_EQ(to_text(s->trace()).find("fuse("), std::string::npos);
  const auto lowered = lower(s->func(), *avx512());
  ASSERT_OK(lowered);
  // Weights are read as one element for all lanes, masked nowhere.
  const std::string text = to_text(lowered->kernel);
  for (size_t at = text.find("[broadcast("); at != std::string::npos; at = text.find("[broadcast(", at + 1))
    EXPECT_EQ(text.substr(at, text.find(']', at) - at).find(" if "), std::string::npos);
}

// Vectors of pixels, every other one of an image: which of them lie inside is known of each tap, so all are read whole.
TEST(DefaultSchedule, OfDepthwiseStridesWithChannelsFirst) {
  const auto func = parse_func(R"(func depthwise(X: f32[6, 41, 41], W: f32[6, 3, 3] constant, Y: f32[6, 21, 21] output):
  for c in 6:
    for h in 21:
      for w in 21:
        for kh in 3:
          for kw in 3:
            block Y(vc: spatial[6] = c, vh: spatial[21] = h, vw: spatial[21] = w, vkh: reduce[3] = kh, vkw: reduce[3] = kw):
              reads X[vc, 2 * vh + vkh - 1, 2 * vw + vkw - 1], W[vc, vkh, vkw]
              writes Y[vc, vh, vw]
              init:
                Y[vc, vh, vw] = 0.0
              Y[vc, vh, vw] = Y[vc, vh, vw] + select(1 <= 2 * vh + vkh && 2 * vh + vkh <= 41 && 1 <= 2 * vw + vkw && 2 * vw + vkw <= 41, X[vc, 2 * vh + vkh - 1, 2 * vw + vkw - 1], 0.0) * W[vc, vkh, vkw]
)");
  ASSERT_OK(func);
  for (const auto& target : {avx512(), std::make_shared<const Target>(parse_target("x86-64-avx2").value())}) {
    const auto s = default_schedule(*func, target, 1);
    ASSERT_OK(s);
    const auto lowered = lower(s->func(), *target, {});
    ASSERT_OK(lowered);
    const std::string text = to_text(lowered->kernel);
    EXPECT_EQ(text.find("for kw"), std::string::npos) << text;
    expect_same(*func, *s);
  }
}

// Rows have vectors of their own here, which windows share: tile and shared vectors fit the registers, and no padded
// copy is made. An image that does not fit the second-level cache is walked once, not once for each vector of channels.
TEST(DefaultSchedule, OfDepthwiseConvolutions) {
  for (const auto& [extent, channels, kernel, outside] :
       {std::tuple{112, 96, 3, 1}, {14, 384, 3, 0}, {28, 64, 5, 0}, {33, 40, 7, 0}}) {
    const int padding = kernel / 2;
    const auto s = default_schedule(testing::conv_workload({.h = extent,
                                                            .w = extent,
                                                            .ic = channels,
                                                            .oc = channels,
                                                            .kernel = kernel,
                                                            .padding = padding,
                                                            .groups = channels}),
                                    avx512(), 1);
    ASSERT_OK(s);
    const std::string chosen = choices(*s);
    EXPECT_NE(chosen.find("keep: 0"), std::string::npos) << chosen;
    EXPECT_NE(chosen.find("rows_outside: " + std::to_string(outside)), std::string::npos) << extent << "\n" << chosen;
  }
}

TEST(DefaultSchedule, IsTiledForEveryReductionWithAVectorIterator) {
  for (const NamedWorkload& workload : small_workloads()) {
    if (workload.name.starts_with("softmax") || workload.name.starts_with("relu") ||
        workload.name.starts_with("transpose") || workload.name.ends_with("_norm") || workload.name == "elementwise" ||
        workload.name == "matmul_three_columns" || workload.name == "matmul_one_column" ||
        workload.name == "row_means" || workload.name == "reduction_last")
      continue;
    const auto s = default_schedule(workload.func, avx512(), 1);
    ASSERT_OK(s);
    EXPECT_NE(choices(*s).find("register_tiling/"), std::string::npos) << workload.name << "\n" << to_text(s->func());
  }
}

}  // namespace
}  // namespace fettle
