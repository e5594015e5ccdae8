#include "schedule/primitives/decompose_reduction.h"

#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/read_at.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kMatmul = R"(
func matmul(A: f32[13, 7], B: f32[7, 9], C: f32[13, 9] output):
  for i in 13:
    for j in 9:
      for k in 7:
        block C(vi: spatial[13] = i, vj: spatial[9] = j, vk: reduce[7] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)";

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
  auto s = schedule_from(R"(
func two(A: f32[20, 3], B: f32[20] output):
  for y in 20:
    for k in 3:
      block B(vi: spatial[20] = y, vk: reduce[3] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
)");
  const BlockRef b = s.block("B");
  const LoopRef k = s.loop("k");
  auto parts = split(s, {s.loop("y"), {kInfer, 1, 16}, Tail::kGuard});
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
  auto s = schedule_from(R"(
func biased(A: f32[4, 3], D: f32[4], B: f32[4] output):
  for i in 4:
    for k in 3:
      block B(vi: spatial[4] = i, vk: reduce[3] = k):
        reads A[vi, vk], D[vi]
        writes B[vi]
        init:
          B[vi] = D[vi]
        B[vi] = B[vi] + A[vi, vk]
)");
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
  auto two = schedule_from(R"(
func two(A: f32[4, 3], B: f32[4] output, C: f32[4] output):
  for i in 4:
    block C(vi: spatial[4] = i):
      reads A[vi, 0]
      writes C[vi]
      C[vi] = A[vi, 0]
  for y in 4:
    for k in 3:
      block B(vi: spatial[4] = y, vk: reduce[3] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
)");
  EXPECT_ERROR(decompose_reduction(two, {two.block("B"), two.loop("i")}), E207);
  EXPECT_ERROR(decompose_reduction(two, {two.block("C"), two.loop("i")}), E212);
}

// The init would come before the copy that it reads.
TEST(DecomposeReduction, E227WhatTheInitReadsIsMadeBelow) {
  auto s = schedule_from(R"(
func biased(A: f32[4, 3], D: f32[4], B: f32[4] output):
  for i in 4:
    for k in 3:
      block B(vi: spatial[4] = i, vk: reduce[3] = k):
        reads A[vi, vk], D[vi]
        writes B[vi]
        init:
          B[vi] = D[vi]
        B[vi] = B[vi] + A[vi, vk]
)");
  const BlockRef b = s.block("B");
  ASSERT_OK(read_at(s, {s.loop("k"), b, 1, "global"}));
  EXPECT_ERROR(decompose_reduction(s, {b, s.loop("k")}), E227);
}

}  // namespace
}  // namespace fettle
