#include "schedule/primitives/storage_align.h"

#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kTwo;
using testing::schedule_from;

TEST(StorageAlign, SpreadsRows) {
  auto s = schedule_from(kTwo);
  ASSERT_OK(storage_align(s, {s.block("T"), 0, 0, 32, 1}));
  EXPECT_TRUE(is_int(find_block(s.func()->body, "T")->writes[0].buffer->strides[0], 33));
  EXPECT_GOLDEN(s.func());
  ASSERT_OK(storage_align(s, {s.block("T"), 0, -1, 2, 0}));  // strides [65 …, 2]
  EXPECT_TRUE(is_int(find_block(s.func()->body, "T")->writes[0].buffer->strides[1], 2));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(StorageAlign, Errors) {
  auto s = schedule_from(kTwo);
  const BlockRef t = s.block("T");
  EXPECT_ERROR(storage_align(s, {t, 0, 0, 0, 0}), E202);
  EXPECT_ERROR(storage_align(s, {t, 0, 0, 32, 32}), E202);
  EXPECT_ERROR(storage_align(s, {s.block("C"), 0, 0, 32, 1}), E218);
  EXPECT_ERROR(storage_align(s, {t, 1, 0, 32, 1}), E220);
  EXPECT_ERROR(storage_align(s, {t, 0, 2, 32, 1}), E220);
  ASSERT_OK(compute_inline(s, {t}));
  EXPECT_ERROR(storage_align(s, {t, 0, 0, 32, 1}), E206);

  auto symbolic = schedule_from(R"(
func symbolic(A: f32[n], C: f32[n] output, n: i64 in 1..100):
  alloc T: f32[n]
  for i in n:
    block T(vi: spatial[n] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi]
  for i in n:
    block C(vi: spatial[n] = i):
      reads T[vi]
      writes C[vi]
      C[vi] = T[vi]
)");
  EXPECT_ERROR(storage_align(symbolic, {symbolic.block("T"), 0, 0, 2, 0}), E221);
}

}  // namespace
}  // namespace fettle
