#include "generations/ansor/sketch/register_sums.h"

#include <sstream>

#include "analysis/verify.h"
#include "generations/ansor/sketch/guarded_taps.h"
#include "generations/ansor/sketch/sketch.h"
#include "generations/ansor/sketch/sketch_space.h"
#include "generations/ansor/sketch/test_programs.h"
#include "generations/ansor/sketch/unrolled_size.h"
#include "lower/lower.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

using testing::TestSchedule;

std::shared_ptr<const Target> avx512() { return std::make_shared<const Target>(parse_target("x86-64-avx512").value()); }

// for i: for k: for i_1 in `rows`: for j in `columns`, whose columns are lanes
TestSchedule tiled_matmul(int64_t m, int64_t rows, int64_t columns) {
  TestSchedule s(testing::matmul(m, columns, 24));
  s.set_target(avx512());
  const auto parts = split(s, {.loop = s.loop("i"), .factors = {kInfer, rows}});
  FETTLE_CHECK(parts.has_value());
  FETTLE_CHECK(reorder(s, {.loops = {s.loop("k"), (*parts)[1], s.loop("j")}}).has_value());
  FETTLE_CHECK(vectorize_in_registers(s, s.loop("j"), 16).has_value());
  return s;
}

TEST(RegisterSums, LanesAreWholeRegistersAndTheLastIsMasked) {
  TestSchedule s(testing::matmul(4, 40, 3));
  s.set_target(avx512());
  ASSERT_OK(reorder(s, {.loops = {s.loop("k"), s.loop("j")}}));
  ASSERT_OK(vectorize_in_registers(s, s.loop("j"), 16));
  EXPECT_GOLDEN(s.func());  // unrolled j_0 in 3, vectorized j_1 in 16, where j_0 * 16 + j_1 < 40
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);

  TestSchedule narrow(testing::matmul(4, 10, 3));
  narrow.set_target(avx512());
  ASSERT_OK(reorder(narrow, {.loops = {narrow.loop("k"), narrow.loop("j")}}));
  ASSERT_OK(vectorize_in_registers(narrow, narrow.loop("j"), 16));
  EXPECT_EQ(loops_text(narrow.func()).find("unroll"), std::string::npos);
}

TEST(RegisterSums, ATileThatFitsIsHeldThroughoutTheReduction) {
  TestSchedule s = tiled_matmul(8, 4, 40);  // 4 rows of 3 vectors
  ASSERT_OK(accumulate_in_registers(s, *avx512()));
  EXPECT_GOLDEN(s.func());
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  EXPECT_OK(verify(s.func(), *avx512(), {.races = false}));
  EXPECT_OK(lower(s.func(), *avx512()));
}

TEST(RegisterSums, ATileThatDoesNotFitStaysInMemory) {
  TestSchedule s = tiled_matmul(24, 12, 48);  // 36 vectors
  const Func before = s.func();
  ASSERT_OK(accumulate_in_registers(s, *avx512()));
  EXPECT_EQ(to_text(s.func()), to_text(before));
}

TEST(RegisterSums, WhatIsBetweenTwoLoopsOfTheReductionIsNotPartOfTheTile) {
  // for i: for k_0: for i_1: for k_1: for i_2: C. All three rows fit, but k_1 is inside of i_1: held from k_1 on.
  TestSchedule s(testing::matmul(16, 16, 24));
  s.set_target(avx512());
  const auto rows = split(s, {.loop = s.loop("i"), .factors = {4, 2, 2}});
  const auto depth = split(s, {.loop = s.loop("k"), .factors = {6, 4}});
  ASSERT_OK(rows);
  ASSERT_OK(depth);
  ASSERT_OK(reorder(s, {.loops = {(*depth)[0], (*rows)[1], (*depth)[1], (*rows)[2], s.loop("j")}}));
  ASSERT_OK(vectorize_in_registers(s, s.loop("j"), 16));
  ASSERT_OK(accumulate_in_registers(s, *avx512()));
  EXPECT_EQ(loops_text(s.func()), R"(for i_0 in 4:
  for k_0 in 6:
    for i_1 in 2:
      unroll ax0 in 2:
        vectorize ax1 in 16:
          C_register[...] = select(step_k_0 == 0, 0.0, C[...])
      for k_1 in 4:
        unroll i_2 in 2:
          vectorize j in 16:
            C_register[...] += A[...] * B[...]
      unroll ax0 in 2:
        vectorize ax1 in 16:
          C[...] = C_register[...]
)");
  EXPECT_SAME_RESULT(s);
}

// A 3x3 convolution whose padding is computed where it is read: for n: for oh: for ow_0: for ow_1: for ic, kh, kw: for
// ow_2 in 2: for oc, in lanes; bias and relu moved under ow_0.
TestSchedule tiled_convolution(int64_t outer, int64_t between, int64_t channels) {
  TestSchedule s(testing::conv_workload(
      {.h = 4, .w = outer * between * 2, .ic = 3, .oc = channels, .kernel = 3, .epilogue = true}));
  s.set_target(avx512());
  FETTLE_CHECK(compute_inline(s, {.block = s.block("padded")}).has_value());
  const BlockRef block = s.block("O");
  const auto loops = get_loops(s, {block});  // n, oh, ow, oc, ic, kh, kw
  FETTLE_CHECK(loops.has_value());
  const auto columns = split(s, {.loop = (*loops)[2], .factors = {outer, between, 2}});
  FETTLE_CHECK(columns.has_value());
  FETTLE_CHECK(reorder(s, {.loops = {(*columns)[0], (*columns)[1], (*loops)[4], (*loops)[5], (*loops)[6], (*columns)[2],
                                     (*loops)[3]}})
                   .has_value());
  FETTLE_CHECK(reverse_compute_at(s, {.block = s.block("Y"), .loop = (*columns)[0]}).has_value());
  FETTLE_CHECK(vectorize_in_registers(s, (*loops)[3], 16).has_value());
  FETTLE_CHECK(vectorize_companions(s, block).has_value());
  return s;
}

TEST(RegisterSums, TapsThatATilesGuardsShareAreUnrolledAndTheConsumerReadsRegisters) {
  for (const int64_t channels : {16, 40}) {
    TestSchedule s = tiled_convolution(3, 1, channels);
    ASSERT_OK(accumulate_in_registers(s, *avx512()));
    EXPECT_SAME_RESULT(s);
    EXPECT_REPLAYS(s);
    EXPECT_OK(verify(s.func(), *avx512(), {.races = false}));
    EXPECT_OK(lower(s.func(), *avx512()));
    if (channels != 16) continue;
    EXPECT_EQ(loops_text(s.func()), R"(for oh in 4:
  for ow_0 in 3:
    unroll ax2 in 2:
      vectorize ax3 in 16:
        O_register[...] = 0.0
    for ic in 3:
      for kh in 3:
        unroll kw in 3:
          unroll ow_2 in 2:
            vectorize oc in 16:
              O_register[...] += select(likely(1 <= voh + vkh && voh + vkh < 5 && 1 <= vow + vkw && vow + vkw < 7), X[...], 0.0) * W[...]
    unroll ax2 in 2:
      vectorize ax3 in 16:
        Y[...] = max(O_register[...] + bias[...], 0.0)
)");
  }
}

TEST(RegisterSums, TheConsumerComesToWhereTheTileIsDone) {
  TestSchedule s = tiled_convolution(2, 3, 16);
  ASSERT_OK(accumulate_in_registers(s, *avx512()));
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  EXPECT_OK(lower(s.func(), *avx512()));
  EXPECT_EQ(loops_text(s.func()), R"(for oh in 4:
  for ow_0 in 2:
    for ow_1 in 3:
      unroll ax2 in 2:
        vectorize ax3 in 16:
          O_register[...] = 0.0
      for ic in 3:
        for kh in 3:
          unroll kw in 3:
            unroll ow_2 in 2:
              vectorize oc in 16:
                O_register[...] += select(likely(1 <= voh + vkh && voh + vkh < 5 && 1 <= vow + vkw && vow + vkw < 13), X[...], 0.0) * W[...]
      unroll ax2 in 2:
        vectorize ax3 in 16:
          Y[...] = max(O_register[...] + bias[...], 0.0)
)");
}

TEST(GuardedTaps, AreThoseComparedTogetherWithALoopOfTheTile) {
  TestSchedule s = tiled_convolution(3, 1, 16);
  const BlockNode& block = *find_block(s.func()->body, "O");
  const auto var_of = [&](const std::string& name) -> const VarNode* {
    for (const ForNode* loop : loops_around(s.func(), &block))
      if (loop->var->name == name) return loop->var.get();
    return nullptr;
  };
  const std::set<const VarNode*> reduction = {var_of("ic"), var_of("kh"), var_of("kw")};
  EXPECT_EQ(guarded_taps(block, {var_of("ow_2")}, reduction), (std::set<const VarNode*>{var_of("kw")}));
  EXPECT_EQ(guarded_taps(block, {var_of("ow_2"), var_of("oh")}, reduction),
            (std::set<const VarNode*>{var_of("kh"), var_of("kw")}));
  EXPECT_TRUE(guarded_taps(block, {var_of("oc")}, reduction).empty());
}

// Unrolled taps of many rows would be mostly code.
TEST(RegisterSums, TapsStayALoopWhereCodeWouldBecomeTooLong) {
  TestSchedule s(testing::conv_workload({.h = 2, .w = 48, .ic = 2, .oc = 16, .kernel = 11, .padding = 5}));
  s.set_target(avx512());
  ASSERT_OK(compute_inline(s, {.block = s.block("padded")}));
  const auto loops = get_loops(s, {s.block("O")});
  ASSERT_OK(loops);
  const auto columns = split(s, {.loop = (*loops)[2], .factors = {2, 24}});
  ASSERT_OK(columns);
  ASSERT_OK(reorder(s, {.loops = {(*loops)[4], (*loops)[5], (*loops)[6], (*columns)[1], (*loops)[3]}}));
  ASSERT_OK(vectorize(s, {.loop = (*loops)[3]}));
  ASSERT_OK(accumulate_in_registers(s, *avx512()));  // 24 rows of 11 taps: 264 statements
  EXPECT_NE(to_text(s.func()).find("@register"), std::string::npos);
  EXPECT_EQ(loops_text(s.func()).find("unroll kw"), std::string::npos);
  EXPECT_OK(verify_unrolled_size(s.func()));
}

TEST(RegisterSums, WhatWasMovedIntoTheNestIsVectorizedToo) {
  const Func func = testing::conv_workload({.h = 6, .w = 6, .ic = 3, .oc = 20, .epilogue = true});
  const auto space = make_sketch_space();
  int companions = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto point = space->generate(func, avx512(), 2, seed, nullptr);
    ASSERT_OK(point);
    for (const std::string& line : [&] {
           std::vector<std::string> lines;
           std::istringstream text(loops_text(point->func()));
           for (std::string line; std::getline(text, line);) lines.push_back(line);
           return lines;
         }())
      companions += line.find("vectorize ax") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(companions, 10);  // loops of blocks that were moved have such names
}

TEST(UnrolledSize, CodeHasALimitAndGuardedCodeASmallerOne) {
  const auto unrolled = [](int64_t copies, const std::string& value) {
    const std::string n = std::to_string(copies);
    return testing::schedule_from("func f(A: f32[" + n + "], B: f32[" + n + "] output):\n  for i in " + n +
                                  " unrolled:\n    block B(v: spatial[" + n +
                                  "] = i):\n      reads A[v]\n      writes B[v]\n      B[v] = " + value + "\n")
        .func();
  };
  EXPECT_OK(verify_unrolled_size(unrolled(2048, "A[v]")));
  EXPECT_ERROR(verify_unrolled_size(unrolled(2049, "A[v]")), E230);
  EXPECT_OK(verify_unrolled_size(unrolled(256, "select(v < 5, A[v], 0.0)")));
  EXPECT_ERROR(verify_unrolled_size(unrolled(257, "select(v < 5, A[v], 0.0)")), E230);
}

// Of a product with a constant: sums in registers, the constant in the order of the tiles, nothing guarded or selected
// in the innermost loop.
TEST(SketchSpace, PointsOfAProductHoldTheirSumsInRegisters) {
  const Func func = testing::matmul_workload(64, 64, 48, false, false, true, false);
  const auto space = make_sketch_space();
  int in_registers = 0, packed = 0;
  constexpr int kPoints = 60;
  for (uint64_t seed = 0; seed < kPoints; ++seed) {
    const auto point = space->generate(func, avx512(), 2, seed, nullptr);
    ASSERT_OK(point);
    in_registers += to_text(point->func()).find("@register") != std::string::npos ? 1 : 0;
    for (const Param& param : point->func()->params)
      if (param.kind == ParamKind::kConstant) packed += param.buffer->rank() > 2 ? 1 : 0;
    walk(point->func()->body, [&](const Stmt& s) {
      const auto* block = s.as<BlockNode>();
      if (block && block->name == "C") {
        EXPECT_FALSE(block->predicate) << to_text(point->func());
      }
      return true;
    });
  }
  EXPECT_GE(in_registers, kPoints / 2);
  EXPECT_GE(packed, kPoints * 9 / 10);
}

}  // namespace
}  // namespace fettle
