#include "schedule/primitives/reverse_compute_inline.h"

#include "schedule/primitives/cache_inplace.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kMatmulRelu = R"(
func matmul(A: f32[6, 7], B: f32[7, 5], bias: f32[5], D: f32[5, 6] output):
  alloc C: f32[6, 5]
  for i in 6:
    for j in 5:
      for k in 7:
        block C(vi: spatial[6] = i, vj: spatial[5] = j, vk: reduce[7] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
  for y in 6:
    for x in 5:
      block D(vi: spatial[6] = y, vj: spatial[5] = x):
        reads C[vi, vj], bias[vj]
        writes D[vj, vi]
        D[vj, vi] = max(C[vi, vj] + bias[vj], 0.0)
)";

TEST(ReverseComputeInline, IntoTheCopyOfAReduction) {
  auto s = schedule_from(kMatmulRelu);
  const BlockRef c = s.block("C"), d = s.block("D");
  ASSERT_OK(cache_write(s, {c, 0, "register"}));
  ASSERT_OK(reverse_compute_inline(s, {d}));
  EXPECT_ERROR(reverse_compute_inline(s, {d}), E206);
  EXPECT_EQ(find_block(s.func()->body, "D"), nullptr);
  EXPECT_EQ(s.func().root().allocations.size(), 1u);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReverseComputeInline, UnderACarriedLoopTheOutputAccumulates) {
  auto s = schedule_from(kMatmulRelu);
  const BlockRef c = s.block("C"), d = s.block("D");
  auto k = split(s, {s.loop("k"), {kInfer, 3}, Tail::kPartition});
  ASSERT_OK(reorder(s, {{(*k)[0], s.loop("i"), s.loop("j"), (*k)[1]}}));
  ASSERT_OK(cache_inplace(s, {c, 0, s.loop("i"), "register"}));
  ASSERT_OK(reverse_compute_inline(s, {d}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReverseComputeInline, AReshape) {
  auto s = schedule_from(R"(
func reshape(A: f32[30], D: f32[6, 5] output):
  alloc B: f32[30]
  for x in 30:
    block B(vx: spatial[30] = x):
      reads A[vx]
      writes B[vx]
      B[vx] = A[vx] * 2.0
  for i in 6:
    for j in 5:
      block D(vi: spatial[6] = i, vj: spatial[5] = j):
        reads B[vi * 5 + vj]
        writes D[vi, vj]
        D[vi, vj] = B[vi * 5 + vj] + 1.0
)");
  ASSERT_OK(reverse_compute_inline(s, {s.block("D")}));
  EXPECT_GOLDEN(s.func());
  EXPECT_SAME_RESULT(s);
}

TEST(ReverseComputeInline, Errors) {
  auto s = schedule_from(kMatmulRelu);
  EXPECT_ERROR(reverse_compute_inline(s, {s.block("D")}), E211);  // the reduction is open
  EXPECT_ERROR(reverse_compute_inline(s, {s.block("C")}), E214);
  EXPECT_ERROR(reverse_compute_inline(s, {BlockRef(StepRef{99, 0})}), E225);

  auto more = schedule_from(R"(
func more(A: f32[6], B: f32[6] output, D: f32[6] output, E: f32[5] output, F: f32[6] output, G: f32[6] output):
  alloc T: f32[6]
  alloc U: f32[6]
  for i in 6:
    block B(vi: spatial[6] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi] + 1.0
  for i in 6:
    block D(vi: spatial[6] = i):
      reads B[vi]
      writes D[vi]
      D[vi] = B[vi] * 2.0
  for i in 6:
    block T(vi: spatial[6] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi] + 2.0
  for i in 5:
    block E(vi: spatial[5] = i):
      reads T[vi +: 2]
      writes E[vi]
      E[vi] = T[vi] + T[vi + 1]
  for i in 6:
    block U(vi: spatial[6] = i):
      reads A[vi]
      writes U[vi]
      U[vi] = A[vi] + 3.0
  for i in 6:
    block F(vi: spatial[6] = i):
      reads U[vi]
      writes F[vi]
      F[vi] = U[vi] * 2.0
  for i in 6:
    block G(vi: spatial[6] = i):
      reads U[vi]
      writes G[vi]
      G[vi] = U[vi] * 3.0
)");
  EXPECT_ERROR(reverse_compute_inline(more, {more.block("D")}), E213);
  EXPECT_ERROR(reverse_compute_inline(more, {more.block("E")}), E214);
  EXPECT_ERROR(reverse_compute_inline(more, {more.block("F")}), E214);  // G reads U, too
  EXPECT_ERROR(reverse_compute_inline(more, {more.block("B")}), E211);  // no producer

  // One loop makes T and U; T, reversed, is ready for U only when the loop is over.
  auto shared = schedule_from(R"(
func shared(A: f32[6], D: f32[6] output):
  alloc T: f32[6]
  alloc U: f32[6]
  for i in 6:
    block T(vi: spatial[6] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi] + 2.0
    block U(vi: spatial[6] = i):
      reads A[vi]
      writes U[vi]
      U[vi] = A[vi] * 2.0
  for i in 6:
    block D(vi: spatial[6] = i):
      reads U[vi], T[5 - vi]
      writes D[vi]
      D[vi] = U[vi] - T[5 - vi]
)");
  EXPECT_ERROR(reverse_compute_inline(shared, {shared.block("D")}), E227);

  auto narrow = schedule_from(R"(
func narrow(A: f32[6, 4], D: f64[6] output):
  alloc C: f32[6]
  for k in 4:
    for i in 6:
      block C(vi: spatial[6] = i, vk: reduce[4] = k):
        reads A[vi, vk]
        writes C[vi]
        init:
          C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
  for y in 6:
    block D(vi: spatial[6] = y):
      reads C[vi]
      writes D[vi]
      D[vi] = f64(C[vi])
)");
  ASSERT_OK(cache_inplace(narrow, {narrow.block("C"), 0, narrow.loop("k"), "global"}));
  EXPECT_ERROR(reverse_compute_inline(narrow, {narrow.block("D")}), E214);
}

// What clears the pad lanes of the buffer between goes with it.
TEST(ReverseComputeInline, OverAPaddedBuffer) {
  auto s = schedule_from(R"(
func f(A: f32[7], C: f32[7] output):
  alloc B: f32[7]
  for i in 7:
    block B(vi: spatial[7] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi] * 2.0
  for i in 7:
    block C(vi: spatial[7] = i):
      reads B[vi]
      writes C[vi]
      C[vi] = B[vi] + 1.0
)");
  ASSERT_OK(split(s, {s.loop("i"), {2, 4}, Tail::kGuard}));  // so that a block of its own clears the lanes
  ASSERT_OK(transform_layout(s, {s.block("B"), 0, "write", testing::map_of("(x) -> (x // 4, x % 4)"), true}));
  ASSERT_OK(reverse_compute_inline(s, {s.block("C")}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_SAME_RESULT(s);
}

// A block that reads what the accumulator holds in the end is no step of it.
TEST(ReverseComputeInline, E214AnotherReaderOfTheSum) {
  auto s = schedule_from(R"(
func f(A: f32[5, 4], C: f32[5] output, D: f32[5] output):
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
    block C(vi: spatial[5] = i):
      reads B[vi]
      writes C[vi]
      C[vi] = B[vi] + 1.0
  for i in 5:
    block D(vi: spatial[5] = i):
      reads B[vi]
      writes D[vi]
      D[vi] = B[vi] * 3.0
)");
  ASSERT_OK(cache_inplace(s, {s.block("B"), 0, s.loop("k"), "global"}));
  EXPECT_ERROR(reverse_compute_inline(s, {s.block("C")}), E214);
}

}  // namespace
}  // namespace fettle
