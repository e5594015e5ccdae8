#include "schedule/primitives/transform_layout.h"

#include "schedule/primitives/cache_index.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::map_of;
using testing::schedule_from;

constexpr const char* kMatmul = R"(
func matmul(A: f32[6, 7], B: f32[7, 10] constant, C: f32[6, 10] output, X: f32[6, 10] free_layout):
  for i in 6:
    for j in 10:
      for k in 7:
        block C(vi: spatial[6] = i, vj: spatial[10] = j, vk: reduce[7] = k):
          reads A[vi, vk], B[vk, vj], X[vi, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj] + X[vi, vj]
)";

TEST(TransformLayout, APackingCopyWalksInTheNewOrder) {
  auto s = schedule_from(kMatmul);
  auto pack = cache_read(s, {s.block("C"), 1, "global"});
  ASSERT_OK(pack);
  ASSERT_OK(transform_layout(s, {*pack, 0, "write", map_of("(k, n) -> (n // 4, k, n % 4)")}));
  const Buffer& packed = s.func().root().allocations[0];
  ASSERT_EQ(packed->rank(), 3);
  EXPECT_TRUE(is_int(packed->shape[0], 3));
  EXPECT_TRUE(is_int(packed->layout->logical_shape[1], 10));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(TransformLayout, ParametersKeepTheirLogicalShape) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  ASSERT_OK(transform_layout(s, {c, 1, "read", map_of("(k, n) -> (n // 4, k, n % 4)")}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(transform_layout(s, {c, 2, "read", map_of("(m, n) -> (n, m)")}));
  EXPECT_SAME_RESULT(s);
  // A second map applies to the layout that the first one made.
  ASSERT_OK(transform_layout(s, {c, 2, "read", map_of("(n, m) -> (n * 6 + m)")}));
  EXPECT_TRUE(s.func()->params[3].buffer->layout);
  EXPECT_EQ(s.func()->params[3].buffer->rank(), 1);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

// Pad lanes of a reduction's output are cleared by a block of its own, and checked here.
TEST(TransformLayout, PadLanesOfAnOutputAreZero) {
  auto s = schedule_from(R"(
func sums(A: f32[5, 3], C: f32[5] output free_layout):
  for i in 5:
    for k in 3:
      block C(vi: spatial[5] = i, vk: reduce[3] = k):
        reads A[vi, vk]
        writes C[vi]
        init:
          C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
)");
  ASSERT_OK(transform_layout(s, {s.block("C"), 0, "write", map_of("(i) -> (i // 4, i % 4)")}));
  EXPECT_SAME_RESULT(s);
  EXPECT_GOLDEN(s.func());
  std::vector<float> a(15, 1.0f), c(8, -1.0f);
  const BufferArg args[] = {{a.data(), 60}, {c.data(), 32}};
  ASSERT_OK(interpret(s.func(), args));
  EXPECT_EQ(c, (std::vector<float>{3, 3, 3, 3, 3, 0, 0, 0}));
  // The block that clears is no second producer.
  ASSERT_OK(cache_read(s, {s.block("C"), 0, "global"}));
}

TEST(TransformLayout, AnInternalBufferOfScheduledBlocks) {
  auto s = schedule_from(R"(
func chain(A: f32[9, 5], D: f32[9, 5] output):
  alloc B: f32[9, 5]
  for i in 9:
    for j in 5:
      block B(vi: spatial[9] = i, vj: spatial[5] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] * 2.0
  for y in 9:
    for x in 5:
      block D(vi: spatial[9] = y, vj: spatial[5] = x):
        reads B[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = B[vi, vj] + 1.0
)");
  ASSERT_OK(split(s, {s.loop("i"), {kInfer, 4}, Tail::kGuard}));
  ASSERT_OK(transform_layout(s, {s.block("D"), 0, "read", map_of("(i, j) -> (i // 4, j, i % 4)")}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(TransformLayout, Errors) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(transform_layout(s, {c, 0, "read", map_of("(m, k) -> (k, m)")}), E218);
  EXPECT_ERROR(transform_layout(s, {c, 0, "write", map_of("(m, n) -> (n, m)")}), E218);
  EXPECT_ERROR(transform_layout(s, {c, 1, "read", map_of("(k, n) -> (n // 4, k, n % 4)"), false}), E217);
  EXPECT_ERROR(transform_layout(s, {c, 1, "read", map_of("(k, n) -> (n // 4, k, n % 2)")}), E217);
  EXPECT_ERROR(transform_layout(s, {c, 1, "read", map_of("(k, n) -> (k + n)")}), E217);
  EXPECT_ERROR(transform_layout(s, {c, 1, "read", map_of("(k) -> (k)")}), E217);
  EXPECT_ERROR(transform_layout(s, {c, 7, "read", map_of("(k, n) -> (n, k)")}), E220);
  EXPECT_ERROR(transform_layout(s, {c, 1, "reads", map_of("(k, n) -> (n, k)")}), E241);
  EXPECT_ERROR(transform_layout(s, {BlockRef(StepRef{99, 0}), 1, "read", map_of("(k, n) -> (n, k)")}), E225);
  auto strided = schedule_from(R"(
func strided(A: f32[6] strides[2] free_layout, B: f32[6] output):
  for i in 6:
    block B(vi: spatial[6] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
)");
  EXPECT_ERROR(transform_layout(strided, {strided.block("B"), 0, "read", map_of("(i) -> (i // 2, i % 2)")}), E218);
}

// With one element a dimension less is asked of the indices that were worked out ahead.
TEST(TransformLayout, AnIndexWorkedOutAheadMayBeNeededNoMore) {
  auto s = schedule_from(R"(
func f(A: f32[5, 7], B: f32[5, 7] output):
  alloc T: f32[5, 1, 7]
  for i in 5:
    for j in 7:
      block T(vi: spatial[5] = i, vj: spatial[7] = j):
        reads A[vi, vj]
        writes T[vi, 0, vj]
        T[vi, 0, vj] = A[vi, vj]
  for i in 35:
    block B(vi: spatial[35] = i):
      reads T[vi // 7, 0, vi % 7]
      writes B[vi // 7, vi % 7]
      B[vi // 7, vi % 7] = T[vi // 7, 0, vi % 7]
)");
  ASSERT_OK(cache_index(s, {s.block("B"), "global"}));
  ASSERT_OK(transform_layout(s, {s.block("T"), 0, "write", map_of("(x, y, z) -> (y, z, x)"), true}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
