#include "schedule/primitives/blockize.h"

#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tile.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kBiased;
using testing::schedule_from;

constexpr const char* kMatmul = "for i in 8: for j in 12: for k in 6: C[i, j] += A[i, k] * B[k, j]";

TEST(Blockize, TileOfAReduction) {
  auto s = schedule_from(kMatmul);
  auto loops = tile(s, {{s.loop("i"), s.loop("j"), s.loop("k")}, {4, 4, 3}});
  ASSERT_OK(loops);
  auto unit = blockize(s, {(*loops)[3]});
  ASSERT_OK(unit);
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_EQ(get_loops(s, {*unit})->size(), 3u);
  ASSERT_OK(parallel(s, {(*loops)[0]}));
  EXPECT_ERROR(parallel(s, {(*loops)[2]}), E210);  // the reduction's tiles
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Blockize, WholeReductionInside) {
  auto s = schedule_from(kMatmul);
  auto i = split(s, {s.loop("i"), {2, 4}});
  ASSERT_OK(i);
  ASSERT_OK(reorder(s, {{(*i)[0], s.loop("j"), (*i)[1], s.loop("k")}}));
  ASSERT_OK(blockize(s, {(*i)[1]}));
  EXPECT_TRUE(find_block(s.func()->body, "C")->init);
  EXPECT_FALSE(find_block(s.func()->body, "C_o")->init);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Blockize, GuardsMoveInside) {
  auto s = schedule_from("for i in 10: for j in 7: B[i, j] = A[i, j]");
  auto loops = tile(s, {{s.loop("i"), s.loop("j")}, {4, 4}, Tail::kGuard});
  ASSERT_OK(loops);
  ASSERT_OK(blockize(s, {(*loops)[2]}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Blockize, TwiceNested) {
  auto s = schedule_from("for i in 16: B[i] = A[i]");
  auto i = split(s, {s.loop("i"), {2, 2, 4}});
  ASSERT_OK(i);
  ASSERT_OK(blockize(s, {(*i)[2]}));
  ASSERT_OK(blockize(s, {(*i)[1]}));
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Blockize, AnUpdateReadsWhatItUpdates) {
  auto s = schedule_from(kMatmul);
  ASSERT_OK(decompose_reduction(s, {s.block("C"), s.loop("i")}));
  auto loops = get_loops(s, {s.block("C")});
  auto unit = blockize(s, {(*loops)[2]});  // all of the reduction
  ASSERT_OK(unit);
  const BlockNode* block = find_block(s.func()->body, "C_o");
  EXPECT_EQ(block->reads.size(), 3u);
  EXPECT_EQ(block->reads.back().buffer->name, "C");
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Blockize, E206ConsumedLoop) {
  auto s = schedule_from(kMatmul);
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {2, 4}}));
  EXPECT_ERROR(blockize(s, {i}), E206);
}

TEST(Blockize, E207SeveralBlocks) {
  auto s = schedule_from(testing::kTwoInOneLoop);
  EXPECT_ERROR(blockize(s, {s.loop("i")}), E207);
}

TEST(Blockize, E209NoTiles) {
  auto balanced = schedule_from("for i in 10: B[i] = A[i]");
  auto parts = split(balanced, {balanced.loop("i"), {kInfer, 4}, Tail::kBalance});
  ASSERT_OK(parts);
  EXPECT_ERROR(blockize(balanced, {(*parts)[1]}), E209);

  auto window = schedule_from(testing::kWindow);
  EXPECT_ERROR(blockize(window, {window.loop("r")}), E209);  // tiles overlap

  auto triangle = schedule_from(R"(
func triangle(A: f32[8, 8], B: f32[8, 8] output):
  for i in 8:
    for j in 8:
      block B(vi: spatial[8] = i, vj: spatial[8] = j) where i < j:
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj]
)");
  EXPECT_ERROR(blockize(triangle, {triangle.loop("j")}), E209);
}

// Tiles of unequal heights: which rows there are is decided outside, so the tile inside stays whole.
TEST(Blockize, KeepsWhatThePredicateSaysOfTheLoopsOutside) {
  auto s = schedule_from("for i in 19: for j in 8: B[i, j] = A[i, j] + 1.0");
  ASSERT_OK(split(s, {s.loop("i"), {kInfer, 6}, Tail::kBalance}));
  const auto unit = blockize(s, {s.loop("j")});
  ASSERT_OK(unit);
  const Stmt made = s.block(*unit).value();
  EXPECT_FALSE(is_true(made.as<BlockNode>()->predicate));
  const auto* loop = made.as<BlockNode>()->body.as<ForNode>();
  ASSERT_NE(loop, nullptr);
  EXPECT_TRUE(is_true(loop->body.as<BlockNode>()->predicate));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Blockize, WhatTheInitAloneReads) {
  auto s = schedule_from(kBiased);
  ASSERT_OK(blockize(s, {s.loop("k")}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_SAME_RESULT(s);

  auto blocked = schedule_from(kBiased);
  ASSERT_OK(split(blocked, {blocked.loop("k"), {3, 1}}));
  ASSERT_OK(blockize(blocked, {blocked.loop("k_1")}));
  EXPECT_OK(check_well_formed(blocked.func()));
  EXPECT_SAME_RESULT(blocked);
}

// A unit around a unit that clears and sums inside makes its output anew, too.
TEST(Blockize, AUnitOfUnits) {
  auto s = schedule_from(testing::row_sum_program(4, 3));
  ASSERT_OK(split(s, {s.loop("i"), {2, 2}}));
  const auto inner = blockize(s, {s.loop("k")});
  ASSERT_OK(inner);
  const auto outer = blockize(s, {s.loop("i_1")});
  ASSERT_OK(outer);
  EXPECT_TRUE(s.block(*outer)->as<BlockNode>()->reads.size() == 1);
  EXPECT_SAME_RESULT(s);
}

// The init of a unit becomes that of the unit around it, with a block inside.
TEST(Blockize, AUnitOfUnitsWithTheInitOutside) {
  auto s = schedule_from(R"(
func rows(A: f32[4, 6], B: f32[4] output):
  for k in 6:
    for i in 4:
      block B(vi: spatial[4] = i, vk: reduce[6] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
)");
  ASSERT_OK(split(s, {s.loop("k"), {3, 2}}));
  ASSERT_OK(blockize(s, {s.loop("i")}));
  ASSERT_OK(blockize(s, {s.loop("k_1")}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_SAME_RESULT(s);
}

// The unit clears once what then runs for each j.
TEST(Blockize, E227WhatRunsAgain) {
  auto s = schedule_from(R"(
func again(A: f32[5, 8], B: f32[5] output):
  for k in 2:
    for j in 3:
      for i in 5:
        for l in 4:
          block B(vi: spatial[5] = i, vk: reduce[8] = k * 4 + l):
            reads A[vi, vk]
            writes B[vi]
            init:
              B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
)");
  EXPECT_ERROR(blockize(s, {s.loop("j")}), E227);
}

}  // namespace
}  // namespace fettle
