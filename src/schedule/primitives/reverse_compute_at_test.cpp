#include "schedule/primitives/reverse_compute_at.h"

#include "schedule/primitives/fuse.h"
#include "schedule/primitives/loop_partition.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kMatmulRelu = R"(
func matmul(A: f32[13, 7], B: f32[7, 9], D: f32[13, 9] output):
  alloc C: f32[13, 9]
  for i in 13:
    for j in 9:
      for k in 7:
        block C(vi: spatial[13] = i, vj: spatial[9] = j, vk: reduce[7] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
  for y in 13:
    for x in 9:
      block D(vi: spatial[13] = y, vj: spatial[9] = x):
        reads C[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = max(C[vi, vj], 0.0)
)";

TEST(ReverseComputeAt, FollowsTheTile) {
  for (Tail tail : {Tail::kGuard, Tail::kPartition, Tail::kBalance, Tail::kMask, Tail::kPad}) {
    auto s = schedule_from(kMatmulRelu);
    const BlockRef d = s.block("D");
    auto i = split(s, {s.loop("i"), {kInfer, 5}, tail});
    auto j = split(s, {s.loop("j"), {kInfer, 2, 2}, tail == Tail::kBalance ? Tail::kGuard : tail});
    ASSERT_OK(i);
    ASSERT_OK(j);
    ASSERT_OK(reorder(s, {{(*i)[0], (*j)[0], s.loop("k"), (*i)[1], (*j)[1], (*j)[2]}}));
    ASSERT_OK(reverse_compute_at(s, {d, (*j)[0]}));
    const auto loops = *get_loops(s, {d});
    ASSERT_EQ(loops.size(), 4u);
    EXPECT_TRUE(is_int(s.loop(loops[2])->as<ForNode>()->extent, 5));
    EXPECT_TRUE(is_int(s.loop(loops[3])->as<ForNode>()->extent, 4));
    EXPECT_SAME_RESULT(s);
    EXPECT_REPLAYS(s);
    if (tail == Tail::kBalance) {
      EXPECT_GOLDEN(s.func());
    }
  }
}

TEST(ReverseComputeAt, UnderAReductionLoopOnlyInTheLastStep) {
  auto s = schedule_from(kMatmulRelu);
  const BlockRef d = s.block("D");
  auto k = split(s, {s.loop("k"), {kInfer, 3}, Tail::kPartition});
  ASSERT_OK(reorder(s, {{(*k)[0], s.loop("i"), s.loop("j"), (*k)[1]}}));
  ASSERT_OK(reverse_compute_at(s, {d, s.loop("i")}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReverseComputeAt, ATileAcrossRowsRepeatsTheLoops) {
  auto s = schedule_from(kMatmulRelu);
  const BlockRef d = s.block("D");
  auto point = fuse(s, {{s.loop("i"), s.loop("j")}});
  auto p = split(s, {*point, {kInfer, 10}, Tail::kBalance});
  ASSERT_OK(p);
  ASSERT_OK(reverse_compute_at(s, {d, (*p)[0]}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReverseComputeAt, TransposeBroadcastAndReduction) {
  auto s = schedule_from(R"(
func rows(A: f32[6, 5], D: f32[5, 6, 2] output, E: f32[6] output):
  alloc C: f32[6, 5]
  for i in 6:
    for j in 5:
      block C(vi: spatial[6] = i, vj: spatial[5] = j):
        reads A[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = A[vi, vj] * 2.0
  for x in 5:
    for y in 6:
      for z in 2:
        block D(vx: spatial[5] = x, vy: spatial[6] = y, vz: spatial[2] = z):
          reads C[vy, vx]
          writes D[vx, vy, vz]
          D[vx, vy, vz] = C[vy, vx] + f32(vz)
  for y in 6:
    for x in 5:
      block E(vy: spatial[6] = y, vx: reduce[5] = x):
        reads C[vy, vx]
        writes E[vy]
        init:
          E[vy] = 0.0
        E[vy] = E[vy] + C[vy, vx]
)");
  const BlockRef d = s.block("D"), e = s.block("E");
  auto i = split(s, {s.loop("i"), {kInfer, 4}, Tail::kPartition});
  ASSERT_OK(reverse_compute_at(s, {d, (*i)[0]}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(reverse_compute_at(s, {e, (*i)[0], false}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReverseComputeAt, TwoProducersInOneTile) {
  auto s = schedule_from(R"(
func softmax(A: f32[6, 5], D: f32[6, 5] output):
  alloc M: f32[6]
  alloc T: f32[6, 5]
  for i in 6:
    for j in 5:
      block T(vi: spatial[6] = i, vj: spatial[5] = j):
        reads A[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] * 2.0
  for y in 6:
    for x in 5:
      block M(vy: spatial[6] = y, vx: reduce[5] = x):
        reads T[vy, vx]
        writes M[vy]
        init:
          M[vy] = -1000.0
        M[vy] = max(M[vy], T[vy, vx])
  for y in 6:
    for x in 5:
      block D(vy: spatial[6] = y, vx: spatial[5] = x):
        reads T[vy, vx], M[vy]
        writes D[vy, vx]
        D[vy, vx] = T[vy, vx] - M[vy]
)");
  const BlockRef m = s.block("M"), d = s.block("D");
  auto i = split(s, {s.loop("i"), {kInfer, 4}, Tail::kBalance});
  ASSERT_OK(reverse_compute_at(s, {m, (*i)[0]}));
  ASSERT_OK(reverse_compute_at(s, {d, (*i)[0]}));
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
}

TEST(ReverseComputeAt, Errors) {
  auto s = schedule_from(kMatmulRelu);
  const BlockRef c = s.block("C"), d = s.block("D");
  const LoopRef i = s.loop("i"), j = s.loop("j"), y = s.loop("y");
  EXPECT_ERROR(reverse_compute_at(s, {d, y}), E207);
  EXPECT_ERROR(reverse_compute_at(s, {c, y}), E215);  // D reads it there
  EXPECT_ERROR(reverse_compute_at(s, {d, LoopRef(StepRef{99, 0})}), E225);
  auto vectors = s;
  ASSERT_OK(vectorize(vectors, {j}));
  EXPECT_ERROR(reverse_compute_at(vectors, {d, j}), E201);
  auto consumed = s;
  ASSERT_OK(split(consumed, {i, {kInfer, 13}}));
  EXPECT_ERROR(reverse_compute_at(consumed, {d, i}), E206);
  EXPECT_OK(reverse_compute_at(s, {d, i}));

  // A stencil needs rows of the next tile; a sum over rows is not complete in one.
  auto more = schedule_from(R"(
func more(A: f32[6, 5], D: f32[5, 5] output, E: f32[5] output, F: f32[6] output):
  alloc C: f32[6, 5]
  for i in 6:
    for j in 5:
      block C(vi: spatial[6] = i, vj: spatial[5] = j):
        reads A[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = A[vi, vj] * 2.0
  for y in 5:
    for x in 5:
      block D(vy: spatial[5] = y, vx: spatial[5] = x):
        reads C[vy +: 2, vx]
        writes D[vy, vx]
        D[vy, vx] = C[vy, vx] + C[vy + 1, vx]
  for x in 5:
    for y in 6:
      block E(vx: spatial[5] = x, vy: reduce[6] = y):
        reads C[vy, vx]
        writes E[vx]
        init:
          E[vx] = 0.0
        E[vx] = E[vx] + C[vy, vx]
  for f in 6:
    block F(vf: spatial[6] = f):
      reads A[vf, 0]
      writes F[vf]
      F[vf] = A[vf, 0]
)");
  const LoopRef rows = more.loop("i");
  EXPECT_ERROR(reverse_compute_at(more, {more.block("D"), rows}), E216);
  EXPECT_ERROR(reverse_compute_at(more, {more.block("E"), rows}), E216);
  EXPECT_ERROR(reverse_compute_at(more, {more.block("F"), rows}), E215);
}

TEST(ReverseComputeAt, RefusesABlockThatIsNotAlone) {
  auto s = schedule_from(R"(
func halves(A: f32[4], B: f32[8] output):
  alloc T: f32[4]
  for i in 4:
    block T(vi: spatial[4] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi]
  for l in 4:
    block low(vi: spatial[4] = l):
      reads T[vi]
      writes B[vi]
      B[vi] = T[vi]
  for h in 4:
    block high(vi: spatial[4] = h):
      reads T[vi]
      writes B[vi + 4]
      B[vi + 4] = T[vi]
)");
  EXPECT_ERROR(reverse_compute_at(s, {s.block("low"), s.loop("i")}), E211);
}

// Each of two that write a buffer may have its part of it: the block would run for that alone.
TEST(ReverseComputeAt, E216OneOfTwoProducersHasAPart) {
  auto s = schedule_from(testing::kTwo);
  const BlockRef c = s.block("C");
  const auto parts = loop_partition(s, {s.loop("i"), {kInfer, 4}});
  ASSERT_OK(parts);
  EXPECT_ERROR(reverse_compute_at(s, {c, (*parts)[1]}), E216);
}

// Two iterators follow from one of the producer's: the tile gives the first of them, the other needs all there is.
TEST(ReverseComputeAt, AProductWithItself) {
  const char* const text = R"(
func gram(A: f32[2, 4, 3], C: f32[2, 4, 4] output):
  alloc B: f32[2, 4, 3]
  for b in 2:
    for i in 4:
      for k in 3:
        block B(vb: spatial[2] = b, vi: spatial[4] = i, vk: spatial[3] = k):
          reads A[vb, vi, vk]
          writes B[vb, vi, vk]
          B[vb, vi, vk] = A[vb, vi, vk] + 1.0
  for b in 2:
    for i in 4:
      for j in 4:
        for k in 3:
          block C(vb: spatial[2] = b, vi: spatial[4] = i, vj: spatial[4] = j, vk: reduce[3] = k):
            reads B[vb, vi, vk], B[vb, vj, vk]
            writes C[vb, vi, vj]
            init:
              C[vb, vi, vj] = 0.0
            C[vb, vi, vj] = C[vb, vi, vj] + B[vb, vi, vk] * B[vb, vj, vk]
)";
  auto s = schedule_from(text);
  ASSERT_OK(reverse_compute_at(s, {s.block("C"), s.loop("b")}));
  EXPECT_SAME_RESULT(s);
  auto rows = schedule_from(text);
  EXPECT_ERROR(reverse_compute_at(rows, {rows.block("C"), rows.loop("i")}), E216);
}

// What comes after the block may overwrite what it reads.
TEST(ReverseComputeAt, E215OverwrittenInBetween) {
  auto s = schedule_from(testing::kOverwritten);
  const auto loops = get_loops(s, {s.block("again")});
  EXPECT_ERROR(reverse_compute_at(s, {s.block("C"), (*loops)[0]}), E215);
}

// Where a scatter has written, data say: nothing can follow it element by element.
TEST(ReverseComputeAt, WhatAScatterHasWrittenIsNotKnown) {
  auto s = schedule_from(R"(func main(I: i64[5], A: f32[5], B: f32[5] output):
  alloc T: f32[5]
  for i in 5:
    block T_init(vi: spatial[5] = i):
      writes T[vi]
      T[vi] = 0.0
  for i in 5:
    block T(vi: scan[5] = i):
      reads I[vi], A[vi], T[0 +: 5]
      writes T[0 +: 5]
      let place = I[vi]
      if 0 <= place && place < 5:
        T[place] = A[vi] - T[place]
  for i in 5:
    block B(vi: spatial[5] = i):
      reads T[vi]
      writes B[vi]
      B[vi] = T[vi] + 1.0
)");
  const auto loops = get_loops(s, {s.block("T")});
  ASSERT_OK(loops);
  EXPECT_ERROR(reverse_compute_at(s, {s.block("B"), loops->front()}), E216);
}

}  // namespace
}  // namespace fettle
