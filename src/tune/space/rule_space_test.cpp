#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "cost/predict/micro_kernel_table.h"
#include "ir/compare.h"
#include "lower/lower.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/testing.h"
#include "tune/parts/tiling.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"
#include "tune/space/testing.h"

namespace fettle {
namespace {

using testing::avx512;
using testing::choices;
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

TEST(DefaultSchedule, OfASoftmax) {
  const auto s = default_schedule(testing::softmax_workload(96, 40), avx512(), 2);
  ASSERT_OK(s);
  EXPECT_GOLDEN(to_text(s->trace()) + "\n" + to_text(s->func()));
  expect_same(testing::softmax_workload(96, 40), *s);
}

TEST(DefaultSchedule, OfAttentionTakesItsRowsThroughTheSoftmaxAtOnce) {
  const Func func = testing::attention_workload(2, 64, 32);
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_TRUE(s.has_value()) << s.error().to_string();
  const auto row_of = [&](const char* name) {
    return loops_around(s->func(), find_block(s->func()->body, name)).at(1);
  };
  for (const char* name : {"M", "E", "T_partial"}) EXPECT_EQ(row_of(name), row_of("P")) << name;
  EXPECT_NE(loops_around(s->func(), find_block(s->func()->body, "Y")).front(),
            loops_around(s->func(), find_block(s->func()->body, "P")).front());
}

// Several rows at once, which do not divide theirs: four short ones, two others. Rows of one vector, too.
TEST(DefaultSchedule, TakesOddRowsTogether) {
  const auto expect_rows = [](const Func& func, const char* rows) {
    const auto s = default_schedule(func, avx512(), 2);
    ASSERT_OK(s);
    EXPECT_NE(to_text(s->trace()).find(fmt::format("# row_fusion/Y/rows: {}\n", rows)), std::string::npos) << rows;
    expect_same(func, *s);
  };
  for (const Func& func : {testing::softmax_workload(97, 40), testing::layer_norm_workload(97, 24),
                           testing::softmax_workload(41, 16), testing::layer_norm_workload(1001, 8)})
    expect_rows(func, "4");
  for (const Func& func : {testing::softmax_workload(51, 300), testing::layer_norm_workload(51, 300)})
    expect_rows(func, "2");
}

// Lanes along the dimension that is contiguous, whatever else is summed over: nothing is transposed for it.
TEST(DefaultSchedule, SumsAroundWhatIsKeptInLanes) {
  const te::Tensor x = te::placeholder({6, 7, 50}, kF32, "X");
  const te::Tensor y = te::compute({7},
                                   [&](const std::vector<Var>& i) -> te::Body {
                                     const te::ReduceAxis j = te::reduce_axis(6, "j"), k = te::reduce_axis(50, "k");
                                     return te::sum(x(testing::Indices{j.var, i[0], k.var}), {j, k});
                                   },
                                   "Y", {"i"});
  const Func func = te::create_func("sums", {x}, {y});
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_EQ(to_text(s->trace()).find("cache_read"), std::string::npos);
  EXPECT_NE(to_text(s->trace()).find("split_reduction"), std::string::npos);
  expect_same(func, *s);
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

// Two and three channels are vectors of four, not scalars.
TEST(DefaultSchedule, FillsVectorsWithFewChannels) {
  for (const int64_t channels : {2, 3}) {
    const Func func = testing::conv_workload({.h = 9, .w = 11, .ic = 5, .oc = channels, .epilogue = true});
    const auto s = default_schedule(func, avx512(), 2);
    ASSERT_OK(s);
    EXPECT_NE(to_text(s->trace()).find("# register_tiling/O/tile"), std::string::npos) << channels;
    expect_same(func, *s);
  }
}

// A fork costs some hundred nanoseconds: not worth it, perhaps (which tuning finds out), or in any case.
TEST(DefaultSchedule, DealsOutWhatTakesLongEnough) {
  const auto trace_of = [](int64_t rows) {
    const auto s = default_schedule(testing::matmul_workload(rows, 64, 64, false, false, true, false), avx512(), 2);
    return s ? to_text(s->trace()) : std::string();
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string small = trace_of(2), middle = trace_of(14), large = trace_of(64);
  EXPECT_FALSE(has(small, "parallel"));
  EXPECT_TRUE(has(middle, "# register_tiling/C/parallel: 1"));
  EXPECT_TRUE(has(large, "parallel(") && !has(large, "C/parallel"));
}

// The sum over a long row is taken while its exponentials are worked out.
TEST(DefaultSchedule, SumsLongRowsInPassing) {
  for (const int64_t columns : {700, 1024}) {
    const Func func = testing::softmax_workload(3, columns);
    const auto s = default_schedule(func, avx512(), 1);
    ASSERT_OK(s);
    const auto innermost = [&](const char* name) {
      const auto loops = loops_around(s->func(), find_block(s->func()->body, name));
      return loops.at(1);  // below the rows
    };
    EXPECT_EQ(innermost("E"), innermost("S_partial")) << columns;
    expect_same(func, *s);
  }
}

// Passes over one short row of sums are unrolled; several rows, and exponentials, keep their loops.
TEST(DefaultSchedule, UnrollsPassesOverShortRowsOfSums) {
  const auto unrolls = [](const Func& func) {
    const auto s = default_schedule(func, avx512(), 1);
    EXPECT_TRUE(s.has_value());
    const DecisionMap decisions = s->decisions();
    const auto found =
        std::ranges::find_if(decisions, [](const auto& decision) { return decision.first.ends_with("/unroll_rows"); });
    return found == decisions.end() ? int64_t{-1} : found->second.integer().value();
  };
  EXPECT_EQ(unrolls(testing::layer_norm_workload(1, 768)), 1);
  EXPECT_EQ(unrolls(testing::layer_norm_workload(128, 768)), 0);
  EXPECT_EQ(unrolls(testing::softmax_workload(128, 768)), 0);
  EXPECT_EQ(unrolls(testing::layer_norm_workload(128, 4096)), -1);  // not offered
}

// Of the default that computes as written.
Decision decision_of(const Func& func, int threads, const std::string& name, const auto& target) {
  const auto s = default_schedule(func, target, threads, nullptr, 0);
  EXPECT_TRUE(s.has_value());
  for (const auto& step : s->trace().steps)
    if (step->address.ends_with("/" + name)) return step->decision;
  return {};
}

int64_t decided(const Func& func, int threads, const std::string& name, const auto& target) {
  return decision_of(func, threads, name, target).integer().value_or(-1);
}

int64_t decided(const Func& func, int threads, const std::string& name) {
  return decided(func, threads, name, avx512());
}

// Short rows go through the passes several at once, all of which the first-level cache keeps, and to threads in few
// runs.
TEST(DefaultSchedule, TakesRowsTogether) {
  EXPECT_EQ(decided(testing::layer_norm_workload(128, 768), 1, "rows"), 2);
  EXPECT_EQ(decided(testing::layer_norm_workload(128, 768), 1, "runs"), -1);
  EXPECT_EQ(decided(testing::layer_norm_workload(128, 768), 2, "runs"), 4);
  EXPECT_EQ(decided(testing::layer_norm_workload(1, 768), 2, "rows"), -1);
  EXPECT_EQ(decided(testing::softmax_workload(1536, 128), 2, "rows"), 2);
  EXPECT_EQ(decided(testing::softmax_workload(1536, 128), 2, "runs"), 16);
  EXPECT_EQ(decided(testing::softmax_workload(40, 6625), 2, "rows"), 1);
  EXPECT_EQ(decided(testing::softmax_workload(40, 6625), 2, "runs"), 4);  // 16 are 14, of which one is short
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

// Panel by panel, where the windows of all panels are more than the first-level cache holds, and vectors are no whole
// lines.
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

// Rows that neither runs nor what is worked on at once divide.
TEST(RuleSpace, OddRowsTogether) {
  for (const Func& func : {testing::layer_norm_workload(67, 170), testing::softmax_workload(67, 170)}) {
    std::set<std::string> seen;
    for (uint64_t seed = 0; seed < 24; ++seed) {
      const auto s = rule_space().generate(func, avx512(), 2, seed, nullptr);
      ASSERT_OK(s);
      std::string key;
      for (const auto& [address, decision] : s->decisions())
        if (address.ends_with("/rows") || address.ends_with("/runs")) key += to_text(decision) + " ";
      if (seen.insert(key).second) expect_same(func, *s);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(seen.size(), 4u);
  }
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

TEST(DefaultSchedule, OfASoftmaxWhoseRowsLieSideBySide) {
  const auto s = default_schedule(testing::softmax_middle_workload(2, 5, 70), avx512(), 1);
  ASSERT_OK(s);
  EXPECT_GOLDEN(to_text(s->trace()) + "\n" + to_text(s->func()));
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

TEST(RankedTiles, OfWindowsHoldWhatTheyShareInRegisters) {
  for (const auto& [taps, step] : {std::pair{int64_t{3}, int64_t{1}}, {5, 1}, {7, 1}, {3, 2}}) {
    TileProblem p{.row_extent = 112,
                  .second_row_extent = 112,
                  .vector_extent = 96,
                  .steps = taps * taps,
                  .shared_vectors = false};
    p.taps = p.second_taps = taps;
    p.row_step = p.second_step = step;
    const std::vector<Tile> tiles = ranked_tiles(p, *avx512());
    ASSERT_FALSE(tiles.empty());
    for (const Tile& tile : tiles) {
      const int64_t read = (tile.rows - 1) * step + taps;
      const int64_t registers = (tile.rows * tile.second_rows + (tile.second_rows > 1 ? 2 : 1) * read) * tile.vectors;
      EXPECT_LE(registers, 32) << tile.name();
    }
  }
}

// The best tile has several image rows, and keeps what their windows share from one tap to the next.
TEST(RankedTiles, OfWindowsTakeSeveralImageRows) {
  for (const int64_t size : {27, 28, 56, 112}) {
    TileProblem p{
        .row_extent = size, .second_row_extent = size, .vector_extent = 96, .steps = 9, .shared_vectors = false};
    p.taps = p.second_taps = 3;
    const Tile best = ranked_tiles(p, *avx512()).front();
    EXPECT_GT(best.second_rows, 1) << size;
    EXPECT_LE((best.rows + best.rows + 2) * best.second_rows * best.vectors, 32) << best.name();
  }
}

TEST(DefaultSchedule, OfADepthwiseAndAPointwiseConvolution) {
  const Func workload = testing::strip_workload({.h = 56, .w = 56, .in = 96, .out = 24, .residual = true});
  const auto s = default_schedule(workload, avx512(), 2);
  ASSERT_OK(s);
  EXPECT_NE(choices(*s).find("strip_fusion/"), std::string::npos);
  EXPECT_GOLDEN(to_text(s->trace()) + "\n" + to_text(s->func()));
}

// Tiles as wide as a vector, whatever is left over at the ends; lowering then gathers nothing.
TEST(DefaultSchedule, WhatTransposesGoesThroughTiles) {
  for (const auto& [name, func] : {NamedWorkload{"of rows", testing::transpose_workload(2, 64, 96)},
                                   NamedWorkload{"odd", testing::transpose_workload(3, 77, 50)},
                                   NamedWorkload{"narrow", testing::transpose_workload(3, 5, 50)}}) {
    const auto s = default_schedule(func, avx512(), 1);
    ASSERT_OK(s);
    EXPECT_NE(choices(*s).find("loop_nest/Y/read_on"), std::string::npos) << name;
    const auto lowered = lower(s->func(), *avx512(), {});
    ASSERT_OK(lowered);
    const std::string text = to_text(lowered->kernel);
    EXPECT_NE(text.find("shuffle("), std::string::npos) << name << "\n" << text;
    expect_same(func, *s);
  }
}

// Borders are loops of their own: what is between them lies side by side.
TEST(DefaultSchedule, ReflectionsAreCutWhereTheyBend) {
  const auto func = parse_func(R"(func reflect(X: f32[20, 56], Y: f32[26, 65] output):
  for i in 26:
    for j in 65:
      block Y(vi: spatial[26] = i, vj: spatial[65] = j):
        reads X[0 +: 20, 0 +: 56]
        writes Y[vi, vj]
        Y[vi, vj] = X[min(max(vi - 3, 3 - vi), 38 - max(vi - 3, 3 - vi)), min(max(vj - 3, 3 - vj), 110 - max(vj - 3, 3 - vj))]
)");
  ASSERT_OK(func);
  const auto s = default_schedule(*func, avx512(), 2);
  ASSERT_OK(s);
  EXPECT_NE(choices(*s).find("loop_nest/Y/straight_runs: 1"), std::string::npos) << choices(*s);
  const auto lowered = lower(s->func(), *avx512(), {});
  ASSERT_OK(lowered);
  const std::string text = to_text(lowered->kernel);
  EXPECT_NE(text.find("+ 1, 1, 16)]\n"), std::string::npos) << text;  // read side by side
  expect_same(*func, *s);
}

// Three colours are no vector, pixels of three colours are three.
TEST(DefaultSchedule, ColoursAreShuffledTogether) {
  for (const int64_t columns : {64, 37}) {
    const te::Tensor x = te::placeholder({3, columns}, kF32, "X");
    const te::Tensor y = te::compute({columns, 3}, [&](const testing::Indices& i) { return x(i[1], i[0]); }, "Y");
    const Func func = te::create_func("colours", {x}, {y});
    const auto s = default_schedule(func, avx512(), 1);
    ASSERT_OK(s);
    EXPECT_NE(to_text(s->func()).find("in 48 vectorized"), std::string::npos) << to_text(s->func());
    expect_same(func, *s);
  }
}

// Steps that are whole periods read alike.
TEST(DefaultSchedule, RepeatedElementsAreReadOnce) {
  for (const int64_t times : {2, 3, 5, 16}) {
    const te::Tensor x = te::placeholder({7, 33}, kF32, "X");
    const te::Tensor y = te::compute(
        {7, 33 * times}, [&](const testing::Indices& i) { return x(i[0], floordiv(Expr(i[1]), Expr(times))); }, "Y");
    const Func func = te::create_func("repeat", {x}, {y});
    const auto s = default_schedule(func, avx512(), 1);
    ASSERT_OK(s);
    const int64_t lanes = 16 % times == 0 ? 16 : 16 * times;
    EXPECT_NE(to_text(s->func()).find(fmt::format("in {} vectorized", lanes)), std::string::npos) << to_text(s->func());
    expect_same(func, *s);
  }
}

// What memory decides is in bounds, and known to be.
TEST(DefaultSchedule, RowsThatAreGatheredHaveLanes) {
  const auto func = parse_func(R"(func rows(W: f32[100, 75], X: i64[300], Y: f32[300, 75] output):
  for i in 300:
    for j in 75:
      block Y(vi: spatial[300] = i, vj: spatial[75] = j):
        reads W[0 +: 100, vj], X[vi]
        writes Y[vi, vj]
        Y[vi, vj] = W[min(max(X[vi], 0), 99), vj]
)");
  ASSERT_OK(func);
  const auto s = default_schedule(*func, avx512(), 2);
  ASSERT_OK(s);
  const std::string text = to_text(s->func());
  EXPECT_NE(text.find("for i_0 in 2 parallel"), std::string::npos) << text;
  EXPECT_NE(text.find("in 16 vectorized"), std::string::npos) << text;
}

// A convolution that hands out a picture, of an image whose channels lie side by side: lanes are pixels of a padded
// copy that turns it.
TEST(DefaultSchedule, PicturesAreMadeOfTransposedCopies) {
  const auto func = parse_func(R"(func conv(X: f32[12, 20, 32], W: f32[3, 32, 3, 3] constant, Y: f32[3, 12, 20] output):
  alloc P: f32[32, 14, 22]
  for c in 32:
    for h in 14:
      for w in 22:
        block P(vc: spatial[32] = c, vh: spatial[14] = h, vw: spatial[22] = w):
          reads X[vh - 1, vw - 1, vc]
          writes P[vc, vh, vw]
          P[vc, vh, vw] = select(likely(1 <= vh && vh < 13 && 1 <= vw && vw < 21), X[vh - 1, vw - 1, vc], 0.0)
  for o in 3:
    for h in 12:
      for w in 20:
        for c in 32:
          for i in 3:
            for j in 3:
              block Y(vo: spatial[3] = o, vh: spatial[12] = h, vw: spatial[20] = w, vc: reduce[32] = c, vi: reduce[3] = i, vj: reduce[3] = j):
                reads P[vc, vh + vi, vw + vj], W[vo, vc, vi, vj]
                writes Y[vo, vh, vw]
                init:
                  Y[vo, vh, vw] = 0.0
                Y[vo, vh, vw] = Y[vo, vh, vw] + P[vc, vh + vi, vw + vj] * W[vo, vc, vi, vj]
)");
  ASSERT_OK(func);
  const auto s = default_schedule(*func, avx512(), 1);
  ASSERT_OK(s);
  EXPECT_TRUE(choices(*s).find("loop_nest/P/read_on") != std::string::npos) << choices(*s);
  expect_same(*func, *s);
}

// The greatest and where it is, along rows and along columns.
TEST(DefaultSchedule, ReductionsOfSeveralStatesHaveLanes) {
  for (const bool rows : {false, true}) {
    const auto func = parse_func(fmt::format(R"(func argmax(X: f32[{0}], I: f32[45] output):
  alloc M: f32[45]
  for i in 45:
    for k in 37:
      block I(vi: spatial[45] = i, vk: reduce[37] = k):
        reads X[{1}]
        writes I[vi], M[vi]
        init:
          I[vi] = 0.0
          M[vi] = -inf
        let place = select(M[vi] < X[{1}], f32(vk), I[vi])
        let value = max(M[vi], X[{1}])
        I[vi] = place
        M[vi] = value
)",
                                             rows ? "45, 37" : "37, 45", rows ? "vi, vk" : "vk, vi"));
    ASSERT_OK(func);
    const auto s = default_schedule(*func, avx512(), 1);
    ASSERT_OK(s);
    EXPECT_NE(to_text(s->func()).find("in 16 vectorized"), std::string::npos) << to_text(s->func());
    expect_same(*func, *s);
  }
}

// The steps of a scan, each of which reads the rows before: lanes within a row, unless it reads the row that it writes.
TEST(DefaultSchedule, StepsOfScansHaveLanes) {
  for (const auto& [read, has_lanes] :
       {std::pair{"S[vt, vi]", true}, {"S[vt, (vi + 5) % 70]", true}, {"S[vt + 1, max(vi - 1, 0)]", false}}) {
    const auto func = parse_func(fmt::format(R"(func scan(X: f32[9, 70], S: f32[9, 70] output):
  for i in 70:
    block begin(vi: spatial[70] = i):
      reads X[0, vi]
      writes S[0, vi]
      S[0, vi] = X[0, vi]
  for t in 8:
    for i in 70:
      block S(vt: scan[8] = t, vi: spatial[70] = i):
        reads S[{}, 0 +: 70], X[vt + 1, vi]
        writes S[vt + 1, vi]
        S[vt + 1, vi] = {} + X[vt + 1, vi]
)",
                                             has_lanes ? "vt" : "vt + 1", read));
    ASSERT_OK(func);
    const auto s = default_schedule(*func, avx512(), 1);
    ASSERT_OK(s);
    const std::string text = to_text(s->func());
    EXPECT_EQ(text.find("vectorized", text.find("for t in 8")) != std::string::npos, has_lanes) << text;
    expect_same(*func, *s);
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

TEST(DefaultSchedule, AFewMoreWithTheMicroKernelTable) {
  const MicroKernelTable table(describe_costs(*avx512()), {}, "test");
  for (const NamedWorkload& workload : small_workloads()) {
    const auto s = default_schedule(workload.func, avx512(), 2, &table);
    ASSERT_OK(s);
    expect_same(workload.func, *s);
    if (HasFatalFailure()) return;
  }
}

// Decisions are edited one by one: what they lead to is a program of the same meaning, and most edits have an effect.
TEST(RuleSpace, DecisionsMayBeEdited) {
  const Func workload = testing::conv_workload({.h = 9, .w = 10, .ic = 4, .oc = 36, .epilogue = true});
  const auto first = default_schedule(workload, avx512(), 2);
  ASSERT_OK(first);
  int changed = 0;
  for (const auto& [address, decision] : first->decisions())
    for (const char* other : {"0", "1", "2", "4", "4x1", "8x2"}) {
      DecisionMap edited = first->decisions();
      edited[address] = other;
      const auto s = rule_space().generate(workload, avx512(), 2, 1, std::make_shared<const DecisionMap>(edited));
      ASSERT_OK(s);
      expect_same(workload, *s);
      if (HasFatalFailure()) return;
      changed += canonical_hash(s->func()) != canonical_hash(first->func());
    }
  EXPECT_GE(changed, 4);
}

class RuleSpaceOf : public ::testing::TestWithParam<NamedWorkload> {};

TEST_P(RuleSpaceOf, DefaultKeepsTheMeaning) {
  for (int threads : {1, 2}) {
    const auto schedule = default_schedule(GetParam().func, avx512(), threads);
    ASSERT_OK(schedule);
    expect_same(GetParam().func, *schedule);
  }
}

TEST_P(RuleSpaceOf, RandomPointsKeepTheMeaning) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto schedule =
        rule_space().generate(GetParam().func, avx512(), 1 + static_cast<int>(seed % 2), seed, nullptr);
    ASSERT_OK(schedule);
    expect_same(GetParam().func, *schedule);
    if (HasFatalFailure()) return;
  }
}

TEST_P(RuleSpaceOf, EqualSeedsAndDecisionsGiveEqualPrograms) {
  const auto first = rule_space().generate(GetParam().func, avx512(), 2, 7, nullptr);
  const auto again = rule_space().generate(GetParam().func, avx512(), 2, 7, nullptr);
  ASSERT_OK(first);
  ASSERT_OK(again);
  EXPECT_EQ(to_text(first->trace()), to_text(again->trace()));
  // With all decisions given, the seed does not matter.
  const auto decided =
      rule_space().generate(GetParam().func, avx512(), 2, 8, std::make_shared<const DecisionMap>(first->decisions()));
  ASSERT_OK(decided);
  EXPECT_TRUE(structural_equal(first->func(), decided->func()));
}

TEST_P(RuleSpaceOf, TracesReplay) {
  const auto schedule = default_schedule(GetParam().func, avx512(), 2);
  ASSERT_OK(schedule);
  const auto trace = parse_trace(to_text(schedule->trace()));
  ASSERT_OK(trace);
  Schedule again(GetParam().func, 99);
  again.set_target(avx512());
  ASSERT_OK(replay(again, *trace));
  EXPECT_TRUE(structural_equal(again.func(), schedule->func()));
}

INSTANTIATE_TEST_SUITE_P(Workloads, RuleSpaceOf, ::testing::ValuesIn(small_workloads()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fettle
