#include "tune/sketch/register_sums.h"

#include <sstream>

#include "analysis/verify.h"
#include "lower/lower.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"
#include "tune/sketch/sketch.h"
#include "tune/sketch/sketch_space.h"
#include "tune/sketch/test_programs.h"
#include "tune/sketch/unrolled_size.h"
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

// Of a product with a constant: sums in registers, the constant in the order of the tiles, nothing guarded or selected in
// the innermost loop.
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
