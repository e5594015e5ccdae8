#include "schedule/primitives/decompose_reduction.h"

#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/read_at.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kBiased;
using testing::schedule_from;

const std::string kMatmul = testing::matmul_program(13, 9, 7);

TEST(DecomposeReduction, AtTheReductionLoop) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  auto init = decompose_reduction(s, {c, s.loop("k")});
  ASSERT_OK(init);
  EXPECT_EQ(find_block(s.func()->body, "C")->init, nullptr);
  EXPECT_EQ(s.block(*init)->as<BlockNode>()->name, "C_init");
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(DecomposeReduction, RepeatsTheTileWithItsKindsAndConditions) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  auto i = split(s, {s.loop("i"), {kInfer, 4}, Tail::kBalance});
  auto j = split(s, {s.loop("j"), {kInfer, 4}, Tail::kMask});
  auto k = split(s, {s.loop("k"), {kInfer, 3}, Tail::kPartition});
  ASSERT_OK(reorder(s, {{(*i)[0], (*j)[0], (*k)[0], (*k)[1], (*i)[1], (*j)[1]}}));
  ASSERT_OK(vectorize(s, {(*j)[1]}));
  ASSERT_OK(decompose_reduction(s, {c, (*k)[0]}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(DecomposeReduction, OutsideOfAllLoops) {
  auto s = schedule_from(kMatmul);
  auto init = decompose_reduction(s, {s.block("C"), s.loop("i")});
  ASSERT_OK(init);
  EXPECT_EQ(get_loops(s, {*init})->size(), 2u);
  EXPECT_SAME_RESULT(s);
}

TEST(DecomposeReduction, KeepsConditionsOnLoopsOfOneIteration) {
  auto s = schedule_from(testing::row_sum_program(20, 3));
  const BlockRef b = s.block("B");
  const LoopRef k = s.loop("k");
  auto parts = split(s, {s.loop("i"), {kInfer, 1, 16}, Tail::kGuard});
  ASSERT_OK(parts);
  ASSERT_OK(reorder(s, {{(*parts)[0], k, (*parts)[1], (*parts)[2]}}));
  ASSERT_OK(decompose_reduction(s, {b, k}));
  EXPECT_SAME_RESULT(s);
}

// Rows of T overlap: with the init beside them each begins anew, after one init for all they would add up.
TEST(DecomposeReduction, E227WhatRunsTwice) {
  auto s = schedule_from(R"(
func windows(A: f32[7, 11], B: f32[5] output):
  alloc T: f32[7]
  for i in 7:
    for k in 11:
      block T(vi: spatial[7] = i, vk: reduce[11] = k):
        reads A[vi, vk]
        writes T[vi]
        init:
          T[vi] = 0.0
        T[vi] = T[vi] + A[vi, vk]
  for y in 5:
    block B(vy: spatial[5] = y):
      reads T[vy +: 3]
      writes B[vy]
      B[vy] = T[vy] + T[vy + 1] + T[vy + 2]
)");
  const BlockRef t = s.block("T");
  ASSERT_OK(compute_at(s, {t, s.loop("y")}));
  const auto loops = get_loops(s, {t});
  ASSERT_OK(loops);
  ASSERT_EQ(loops->size(), 3u);
  EXPECT_ERROR(decompose_reduction(s, {t, (*loops)[0]}), E227);
  ASSERT_OK(decompose_reduction(s, {t, (*loops)[1]}));
  EXPECT_SAME_RESULT(s);
}

TEST(DecomposeReduction, LoopsThatGiveEachPointOnce) {
  auto fused = schedule_from(kMatmul);
  const BlockRef c = fused.block("C");
  const auto both = fuse(fused, {{fused.loop("i"), fused.loop("j")}});
  ASSERT_OK(both);
  const auto all = fuse(fused, {{*both, fused.loop("k")}});
  ASSERT_OK(all);
  ASSERT_OK(decompose_reduction(fused, {c, *all}));
  EXPECT_SAME_RESULT(fused);

  auto triangle = schedule_from(R"(
func triangle(A: f32[6, 6], B: f32[6] output):
  for i in 6:
    for k in i + 1:
      block B(vi: spatial[6] = i, vk: reduce[6] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
)");
  ASSERT_OK(decompose_reduction(triangle, {triangle.block("B"), triangle.loop("i")}));
  EXPECT_SAME_RESULT(triangle);
}

TEST(DecomposeReduction, WhatTheInitAloneReads) {
  auto s = schedule_from(kBiased);
  ASSERT_OK(decompose_reduction(s, {s.block("B"), s.loop("k")}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_SAME_RESULT(s);
}

TEST(DecomposeReduction, Errors) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  const LoopRef i = s.loop("i"), j = s.loop("j"), k = s.loop("k");
  ASSERT_OK(reorder(s, {{k, i, j}}));
  EXPECT_ERROR(decompose_reduction(s, {c, j}), E227);
  auto consumed = s;
  ASSERT_OK(split(consumed, {k, {kInfer, 7}}));
  EXPECT_ERROR(decompose_reduction(consumed, {c, k}), E206);
  ASSERT_OK(decompose_reduction(s, {c, k}));
  EXPECT_ERROR(decompose_reduction(s, {c, k}), E212);
  EXPECT_ERROR(decompose_reduction(s, {c, LoopRef(StepRef{99, 0})}), E225);
  auto two = schedule_from(testing::kColumnAndRowSum);
  EXPECT_ERROR(decompose_reduction(two, {two.block("B"), two.loop("i")}), E207);
  EXPECT_ERROR(decompose_reduction(two, {two.block("C"), two.loop("i")}), E212);
}

// The init would come before the copy that it reads.
TEST(DecomposeReduction, E227WhatTheInitReadsIsMadeBelow) {
  auto s = schedule_from(kBiased);
  const BlockRef b = s.block("B");
  ASSERT_OK(read_at(s, {s.loop("k"), b, 1, "global"}));
  EXPECT_ERROR(decompose_reduction(s, {b, s.loop("k")}), E227);
}

}  // namespace
}  // namespace fettle
