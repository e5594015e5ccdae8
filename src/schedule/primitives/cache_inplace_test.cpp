#include "schedule/primitives/cache_inplace.h"

#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/read_at.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kBiased;
using testing::schedule_from;

constexpr const char* kMatmul = R"(
func matmul(A: f32[13, 3, 7], B: f32[3, 7, 9], C: f32[13, 9] output):
  for i in 13:
    for j in 9:
      for b in 3:
        for k in 7:
          block C(vi: spatial[13] = i, vj: spatial[9] = j, vb: reduce[3] = b, vk: reduce[7] = k):
            reads A[vi, vb, vk], B[vb, vk, vj]
            writes C[vi, vj]
            init:
              C[vi, vj] = 1.0
            C[vi, vj] = C[vi, vj] + A[vi, vb, vk] * B[vb, vk, vj]
)";

TEST(CacheInplace, LoadsAccumulatesAndStoresTheTile) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  auto i = split(s, {s.loop("i"), {kInfer, 4}, Tail::kBalance});
  auto k = split(s, {s.loop("k"), {kInfer, 3}, Tail::kPartition});
  // Two reduction loops outside of the tile: b and k_0.
  ASSERT_OK(reorder(s, {{s.loop("b"), (*k)[0], (*i)[0], (*k)[1], (*i)[1], s.loop("j")}}));
  auto blocks = cache_inplace(s, {c, 0, (*i)[0], "register"});
  ASSERT_OK(blocks);
  ASSERT_EQ(blocks->size(), 2u);
  EXPECT_EQ(s.block((*blocks)[0])->as<BlockNode>()->name, "C_register_load");
  EXPECT_EQ(s.block((*blocks)[1])->as<BlockNode>()->name, "C_register_store");
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(CacheInplace, WithoutOuterReductionTheLoadOnlyClears) {
  auto s = schedule_from(kMatmul);
  auto blocks = cache_inplace(s, {s.block("C"), 0, s.loop("i"), "global"});
  ASSERT_OK(blocks);
  EXPECT_TRUE(s.block((*blocks)[0])->as<BlockNode>()->reads.empty());
  EXPECT_SAME_RESULT(s);
}

TEST(CacheInplace, AtEveryLoop) {
  for (const char* at : {"b", "i_0", "k", "i_1", "j"}) {
    auto s = schedule_from(kMatmul);
    const BlockRef c = s.block("C");
    auto i = split(s, {s.loop("i"), {kInfer, 5}, Tail::kGuard});
    ASSERT_OK(reorder(s, {{s.loop("b"), (*i)[0], s.loop("k"), (*i)[1], s.loop("j")}}));
    ASSERT_OK(cache_inplace(s, {c, 0, s.loop(at), "register"}));
    EXPECT_SAME_RESULT(s);
    EXPECT_REPLAYS(s);
  }
}

TEST(CacheInplace, Errors) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  const LoopRef i = s.loop("i");
  EXPECT_ERROR(cache_inplace(s, {c, 1, i, "register"}), E220);
  EXPECT_ERROR(cache_inplace(s, {c, 0, i, "shared"}), E219);
  EXPECT_ERROR(cache_inplace(s, {c, 0, LoopRef(StepRef{99, 0}), "register"}), E225);
  auto consumed = s;
  ASSERT_OK(split(consumed, {i, {kInfer, 13}}));
  EXPECT_ERROR(cache_inplace(consumed, {c, 0, i, "register"}), E206);
  ASSERT_OK(decompose_reduction(s, {c, i}));
  EXPECT_ERROR(cache_inplace(s, {c, 0, i, "register"}), E212);
  EXPECT_ERROR(cache_inplace(s, {s.block("C_init"), 0, i, "register"}), E212);

  auto two = schedule_from(testing::kColumnAndRowSum);
  EXPECT_ERROR(cache_inplace(two, {two.block("B"), 0, two.loop("i"), "register"}), E207);
}

TEST(CacheInplace, WhatTheInitAloneReads) {
  auto s = schedule_from(kBiased);
  ASSERT_OK(cache_inplace(s, {s.block("B"), 0, s.loop("k"), "global"}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_SAME_RESULT(s);
}

// A loop that has no part in the sum's steps but that a guard asks for: the tile begins below it in one iteration
// alone.
TEST(CacheInplace, AGuardChoosesTheStep) {
  auto s = schedule_from(testing::row_sum_program(3, 1));
  const auto outer = split(s, {s.loop("k"), {kInfer, 8}, Tail::kGuard});
  ASSERT_OK(outer);
  const auto steps = split(s, {(*outer)[0], {kInfer, 5}, Tail::kGuard});
  ASSERT_OK(steps);
  ASSERT_OK(split(s, {(*outer)[1], {kInfer, 5}, Tail::kGuard}));
  ASSERT_OK(cache_inplace(s, {s.block("B"), 0, (*steps)[1], "global"}));
  EXPECT_SAME_RESULT(s);
}

// Below j the sums begin anew for each j: a tile that is cleared before j would add them all up.
TEST(CacheInplace, E227WhatRunsAgain) {
  auto s = schedule_from(R"(
func again(A: f32[5, 4], C: f32[5, 3] output):
  alloc B: f32[5]
  for i in 5:
    for k in 4:
      block B(vi: spatial[5] = i, vk: reduce[4] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
  for i in 5:
    for j in 3:
      block C(vi: spatial[5] = i, vj: spatial[3] = j):
        reads B[vi]
        writes C[vi, vj]
        C[vi, vj] = B[vi] + 1.0
)");
  const BlockRef b = s.block("B");
  ASSERT_OK(compute_at(s, {b, s.loop("j")}));
  const auto loops = get_loops(s, {b});
  ASSERT_OK(loops);
  EXPECT_ERROR(cache_inplace(s, {b, 0, (*loops)[0], "global"}), E227);
  ASSERT_OK(cache_inplace(s, {b, 0, (*loops)[1], "global"}));
  EXPECT_SAME_RESULT(s);
}

constexpr const char* kSteps = R"(
func steps(X: f32[6, 10], S: f32[10] output, R: f32[6, 10] output):
  for i in 10:
    block S_init(vi: spatial[10] = i):
      writes S[vi]
      S[vi] = 1.0
  for i in 10:
    for t in 6:
      block S(vi: spatial[10] = i, vt: scan[6] = t):
        reads S[vi], X[vt, vi]
        writes S[vi], R[vt, vi]
        let next = S[vi] * 2.0 + X[vt, vi]
        S[vi] = next
        R[vt, vi] = next
)";

TEST(CacheInplace, AScanTakesItsStateAsItIs) {
  for (const bool around_steps : {true, false}) {
    auto s = schedule_from(kSteps);
    const BlockRef steps = s.block("S");
    const auto loops = get_loops(s, {steps});
    ASSERT_OK(loops);
    const auto i = split(s, {(*loops)[0], {kInfer, 4}, Tail::kGuard});
    ASSERT_OK(reorder(s, {{(*i)[0], (*loops)[1], (*i)[1]}}));
    ASSERT_OK(cache_inplace(s, {steps, 0, around_steps ? (*i)[0] : (*loops)[1], "register"}));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
  }
  auto s = schedule_from(kSteps);
  const auto begin = get_loops(s, {s.block("S_init")});
  ASSERT_OK(begin);
  EXPECT_ERROR(cache_inplace(s, {s.block("S_init"), 0, (*begin)[0], "register"}), E212);
}

// The tile would begin before the copy that its first step reads.
TEST(CacheInplace, E227WhatTheInitReadsIsMadeBelow) {
  auto s = schedule_from(kBiased);
  const BlockRef b = s.block("B");
  const LoopRef i = s.loop("i"), k = s.loop("k");
  ASSERT_OK(read_at(s, {k, b, 1, "global"}));
  EXPECT_ERROR(cache_inplace(s, {b, 0, i, "global"}), E227);
  ASSERT_OK(cache_inplace(s, {b, 0, k, "global"}));
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
