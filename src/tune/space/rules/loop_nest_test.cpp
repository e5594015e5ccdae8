// Plain loops, as the default schedules them.
#include <fmt/format.h>
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
using testing::expect_same;
using testing::NamedWorkload;

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

// States of a recurrence stay in registers while all steps go by; lanes are elements.
TEST(DefaultSchedule, StepsGoByInLanesOfElements) {
  for (const int64_t n : {1, 3, 10, 64, 70, 200}) {
    const te::Tensor x = te::placeholder({9, n}, kF32, "X"), s0 = te::placeholder({n}, kF32, "S0");
    const auto made = te::recur(
        9, {n}, [&](const auto& i) { return te::Body(std::vector<Expr>{s0(i[0]), constant(1, kF32)}); },
        [&](const auto& s, const Expr& t, const auto& i) {
          const Expr next = max(s[0], s[1]) + x(t, i[0]);
          return te::Step{{}, {next, s[0]}, {next - s[1]}};
        },
        "S");
    const Func func = te::create_func("steps", {x, s0}, made);
    const auto s = default_schedule(func, avx512(), 2);
    ASSERT_OK(s);
    EXPECT_EQ(to_text(s->trace()).find("scope=\"register\"") != std::string::npos, n >= 4) << to_text(s->trace());
    expect_same(func, *s);
    for (uint64_t seed = 1; seed < 5; ++seed) {
      const auto drawn = rule_space().generate(func, avx512(), 2, DecisionSource(seed), nullptr);
      ASSERT_OK(drawn);
      expect_same(func, *drawn);
    }
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

// Vectors that are half a line are read two by two, and the guards of what is left over stay at the ends.
TEST(DefaultSchedule, WhatTransposesReadsWholeLines) {
  const auto avx2 = std::make_shared<const Target>(parse_target("x86-64-avx2").value());
  const Func func = testing::transpose_workload(3, 361, 48);
  const auto s = default_schedule(func, avx2, 1);
  ASSERT_OK(s);
  const std::string trace = to_text(s->trace());
  EXPECT_NE(trace.find("factors=[-1, 2, 8]"), std::string::npos) << trace;
  expect_same(func, *s);
  const std::string wide = to_text(default_schedule(func, avx512(), 1)->trace());
  EXPECT_EQ(wide.find("factors=[-1, 2, 8]"), std::string::npos) << wide;
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

// Rows that are added to rows which data name: lanes along each row, one row after another.
TEST(DefaultSchedule, RowsThatAreScatteredHaveLanes) {
  const te::Tensor x = te::placeholder({100, 75}, kF32, "X"), at = te::placeholder({300}, kF32, "I"),
                   u = te::placeholder({300, 75}, kF32, "U");
  const te::Tensor y = te::scatter(
      {100, 75}, [&](const auto& i) { return x(i); }, {300, 75},
      [&](const auto& i) { return te::Update{{cast(kI64, at(i[0]) * float_imm(8, kF32)), i[1]}, u(i)}; },
      [](const Expr& old, const Expr& value) { return old + value; }, "Y");
  const Func func = te::create_func("scatter", {x, at, u}, {y});
  const auto s = default_schedule(func, avx512(), 2);
  ASSERT_OK(s);
  const std::string text = to_text(s->func());
  EXPECT_NE(text.find("for u0 in 300:\n    for u1_0 in 5"), std::string::npos) << text;
  EXPECT_NE(text.find("for u1_1 in 16 vectorized"), std::string::npos) << text;
  expect_same(func, *s);
}

// Each row of its own: rows are dealt out to threads, and the updates of a row follow one another.
TEST(DefaultSchedule, UpdatesOfARowKeepTheirOrder) {
  const te::Tensor x = te::placeholder({64, 75}, kF32, "X"), at = te::placeholder({64, 300}, kF32, "I"),
                   u = te::placeholder({64, 300}, kF32, "U");
  const te::Tensor y = te::scatter(
      {64, 75}, [&](const auto& i) { return x(i); }, {64, 300},
      [&](const auto& i) { return te::Update{{i[0], cast(kI64, at(i) * float_imm(8, kF32))}, u(i)}; }, nullptr, "Y");
  const Func func = te::create_func("scatter", {x, at, u}, {y});
  const auto s = default_schedule(func, avx512(), 2);
  ASSERT_OK(s);
  const std::string text = to_text(s->func());
  EXPECT_NE(text.find("for u0 in 64 parallel:\n    for u1 in 300:"), std::string::npos) << text;
  expect_same(func, *s);
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

}  // namespace
}  // namespace fettle
