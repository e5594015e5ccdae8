#include "schedule/primitives/compute_inline.h"

#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

TEST(ComputeInline, ElementwiseTransposeAndPadding) {
  auto s = schedule_from(R"(
func chain(A: f32[6, 5], D: f32[7, 8] output):
  alloc B: f32[6, 5]
  alloc T: f32[5, 6]
  alloc P: f32[7, 8]
  for i in 6:
    for j in 5:
      block B(vi: spatial[6] = i, vj: spatial[5] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] * 2.0
  for i in 5:
    for j in 6:
      block T(vi: spatial[5] = i, vj: spatial[6] = j):
        reads B[vj, vi]
        writes T[vi, vj]
        T[vi, vj] = B[vj, vi] + B[vj, vi] * 3.0
  for i in 7:
    for j in 8:
      block P(vi: spatial[7] = i, vj: spatial[8] = j):
        reads T[vi - 1, vj - 1]
        writes P[vi, vj]
        P[vi, vj] = select(1 <= vi && vi < 6 && 1 <= vj && vj < 7, T[vi - 1, vj - 1], 0.0)
  for i in 7:
    for j in 8:
      block D(vi: spatial[7] = i, vj: spatial[8] = j):
        reads P[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = max(P[vi, vj], 1.0)
)");
  for (const char* name : {"T", "B", "P"}) {
    ASSERT_OK(compute_inline(s, {s.block(name)}));
    EXPECT_SAME_RESULT(s);
  }
  EXPECT_TRUE(s.func().root().allocations.empty());
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
}

// The producer writes at indices that are not its iterators: a reshape, seen from the other side.
TEST(ComputeInline, SolvesForTheIterators) {
  auto s = schedule_from(R"(
func reshape(A: f32[6, 5], D: f32[30] output):
  alloc B: f32[30]
  for i in 6:
    for j in 5:
      block B(vi: spatial[6] = i, vj: spatial[5] = j):
        reads A[vi, vj]
        writes B[vi * 5 + vj]
        B[vi * 5 + vj] = A[vi, vj] * 2.0
  for x in 30:
    block D(vx: spatial[30] = x):
      reads B[vx]
      writes D[vx]
      D[vx] = B[vx] + 1.0
)");
  ASSERT_OK(compute_inline(s, {s.block("B")}));
  EXPECT_GOLDEN(s.func());
  EXPECT_SAME_RESULT(s);
}

TEST(ComputeInline, IntoAReductionAndAfterSplitting) {
  auto s = schedule_from(R"(
func sums(A: f32[6, 5], D: f32[6] output):
  alloc B: f32[6, 5]
  for i in 6:
    for j in 5:
      block B(vi: spatial[6] = i, vj: spatial[5] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] * A[vi, vj]
  for x in 6:
    for k in 5:
      block D(vx: spatial[6] = x, vk: reduce[5] = k):
        reads B[vx, vk]
        writes D[vx]
        init:
          D[vx] = 0.0
        D[vx] = D[vx] + B[vx, vk]
)");
  ASSERT_OK(split(s, {s.loop("i"), {kInfer, 4}, Tail::kGuard}));
  const BlockRef b = s.block("B");
  ASSERT_OK(compute_inline(s, {b}));
  EXPECT_ERROR(compute_inline(s, {b}), E206);
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
}

TEST(ComputeInline, Errors) {
  auto s = schedule_from(R"(
func errors(A: f32[6], D: f32[6] output, F: f32[6] output):
  alloc S: f32[6]
  alloc E: f32[12]
  alloc U: f32[6]
  for i in 6:
    for k in 2:
      block S(vi: spatial[6] = i, vk: reduce[2] = k):
        reads A[vi]
        writes S[vi]
        init:
          S[vi] = 0.0
        S[vi] = S[vi] + A[vi]
  for i in 6:
    block E(vi: spatial[6] = i):
      reads S[vi]
      writes E[vi * 2]
      E[vi * 2] = S[vi]
  for i in 6:
    block D(vi: spatial[6] = i):
      reads E[vi * 2 + 1]
      writes D[vi]
      D[vi] = E[vi * 2 + 1]
  for i in 6:
    block U(vi: spatial[6] = i):
      reads D[vi]
      writes U[vi]
      U[vi] = D[vi]
)");
  EXPECT_ERROR(compute_inline(s, {s.block("S")}), E214);  // a reduction
  EXPECT_ERROR(compute_inline(s, {s.block("E")}), E214);  // leaves gaps
  EXPECT_ERROR(compute_inline(s, {s.block("D")}), E213);
  EXPECT_ERROR(compute_inline(s, {s.block("U")}), E214);  // nothing reads it
  EXPECT_ERROR(compute_inline(s, {BlockRef(StepRef{99, 0})}), E225);

  auto overwritten = schedule_from(R"(
func overwritten(A: f32[6], D: f32[6] output):
  alloc S: f32[6]
  alloc B: f32[6]
  for i in 6:
    block first(vi: spatial[6] = i):
      reads A[vi]
      writes S[vi]
      S[vi] = A[vi]
  for i in 6:
    block B(vi: spatial[6] = i):
      reads S[vi]
      writes B[vi]
      B[vi] = S[vi] + 1.0
  for i in 6:
    block second(vi: spatial[6] = i):
      reads A[vi]
      writes S[vi]
      S[vi] = A[vi] * 2.0
  for i in 6:
    block D(vi: spatial[6] = i):
      reads B[vi], S[vi]
      writes D[vi]
      D[vi] = B[vi] + S[vi]
)");
  EXPECT_ERROR(compute_inline(overwritten, {overwritten.block("B")}), E227);
}

}  // namespace
}  // namespace fettle
