#include "schedule/primitives/loop_partition.h"

#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kPadded = R"(
func pad(A: f32[6, 4], B: f32[8, 4] output):
  for i in 8:
    for j in 4:
      block B(vi: spatial[8] = i, vj: spatial[4] = j):
        reads A[vi - 1, vj]
        writes B[vi, vj]
        B[vi, vj] = select(0 < vi && vi < 7, A[vi - 1, vj], 0.0)
)";
const std::string kRowSum = testing::row_sum_program(6, 8);

TEST(LoopPartition, LeftMiddleRight) {
  auto s = schedule_from(kPadded);
  const LoopRef j = s.loop("j");
  const BlockRef block = s.block("B");
  auto parts = loop_partition(s, {s.loop("i"), {1, kInfer, 1}});
  ASSERT_OK(parts);
  ASSERT_EQ(parts->size(), 3u);
  EXPECT_EQ(*as_int(s.loop((*parts)[1])->as<ForNode>()->extent), 6);
  // The references are to the longest part.
  EXPECT_EQ(loops_around(s.func(), s.block(block)->get()).front(), s.loop((*parts)[1])->get());
  ASSERT_OK(unroll(s, {j}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(LoopPartition, DropsPredicatesThatHold) {
  auto s = schedule_from(kPadded);
  auto loops = split(s, {s.loop("i"), {kInfer, 3}, Tail::kGuard});
  ASSERT_OK(loops);
  ASSERT_OK(loop_partition(s, {(*loops)[0], {2, 1}}));
  EXPECT_FALSE(find_block(s.func()->body, "B")->predicate);
  EXPECT_TRUE(find_block(s.func()->body, "B_1")->predicate);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(LoopPartition, ReductionBeginsInTheFirstPart) {
  auto s = schedule_from(kRowSum);
  ASSERT_OK(loop_partition(s, {s.loop("k"), {2, 4, kInfer}}));
  EXPECT_TRUE(find_block(s.func()->body, "B_1")->init);
  EXPECT_FALSE(find_block(s.func()->body, "B")->init);
  EXPECT_FALSE(find_block(s.func()->body, "B_2")->init);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(LoopPartition, PartsOfParts) {
  auto s = schedule_from(kRowSum);
  auto parts = loop_partition(s, {s.loop("i"), {2, 4}});
  ASSERT_OK(parts);
  ASSERT_OK(loop_partition(s, {(*parts)[0], {1, 1}}));
  ASSERT_OK(loop_partition(s, {(*parts)[1], {3, 1}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_OK(check_well_formed(s.func()));
}

TEST(LoopPartition, OnePartIsTheLoop) {
  auto s = schedule_from(kRowSum);
  auto parts = loop_partition(s, {s.loop("i"), {6}});
  ASSERT_OK(parts);
  EXPECT_EQ(s.func(), s.original);
}

TEST(LoopPartition, E201NotSerial) {
  auto s = schedule_from(kRowSum);
  ASSERT_OK(unroll(s, {s.loop("i")}));
  EXPECT_ERROR(loop_partition(s, {s.loop("i"), {1, kInfer}}), E201);
}

TEST(LoopPartition, E202SizeLessThanOne) {
  auto s = schedule_from(kRowSum);
  EXPECT_ERROR(loop_partition(s, {s.loop("i"), {0, kInfer}}), E202);
  EXPECT_ERROR(loop_partition(s, {s.loop("i"), {-2, kInfer}}), E202);
  EXPECT_ERROR(loop_partition(s, {s.loop("i"), {}}), E202);
}

TEST(LoopPartition, E203TwoToInfer) {
  auto s = schedule_from(kRowSum);
  EXPECT_ERROR(loop_partition(s, {s.loop("i"), {kInfer, 1, kInfer}}), E203);
}

TEST(LoopPartition, E206ConsumedLoop) {
  auto s = schedule_from(kRowSum);
  const LoopRef i = s.loop("i");
  ASSERT_OK(loop_partition(s, {i, {1, 5}}));
  EXPECT_ERROR(loop_partition(s, {i, {1, 5}}), E206);
}

TEST(LoopPartition, E221ExtentNotConstant) {
  auto s = schedule_from(testing::kSymbolicCopy);
  EXPECT_ERROR(loop_partition(s, {s.loop("i"), {1, kInfer}}), E221);
}

TEST(LoopPartition, E233SizesDoNotAddUp) {
  auto s = schedule_from(kRowSum);
  EXPECT_ERROR(loop_partition(s, {s.loop("i"), {2, 3}}), E233);
  EXPECT_ERROR(loop_partition(s, {s.loop("i"), {4, 3}}), E233);
  EXPECT_ERROR(loop_partition(s, {s.loop("i"), {3, kInfer, 3}}), E233);
}

TEST(LoopPartition, WhatTheInitAloneReads) {
  auto s = schedule_from(testing::kBiased);
  ASSERT_OK(loop_partition(s, {s.loop("k"), {1, kInfer}}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
