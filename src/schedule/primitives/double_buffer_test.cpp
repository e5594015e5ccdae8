#include "schedule/primitives/double_buffer.h"

#include "schedule/primitives/compute_inline.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

std::string staged(const std::string& read) {
  return R"(
func staged(A: f32[8], B: f32[8] output):
  alloc T: f32[8]
  for i in 4:
    for j in 2:
      block T(vi: spatial[8] = i * 2 + j):
        reads A[vi]
        writes T[vi]
        T[vi] = A[vi] * 2.0
    for j in 2:
      block B(vi: spatial[8] = i * 2 + j):
        reads )" +
         read + R"(
        writes B[vi]
        B[vi] = )" +
         read + "\n";
}

TEST(DoubleBuffer, NotesTheBlock) {
  auto s = schedule_from(staged("T[vi // 2 * 2 + 1 - vi % 2]"));
  ASSERT_OK(double_buffer(s, {s.block("T"), 0}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(DoubleBuffer, Errors) {
  auto s = schedule_from(staged("T[vi]"));
  const BlockRef t = s.block("T");
  EXPECT_ERROR(double_buffer(s, {t, 1}), E220);
  EXPECT_ERROR(double_buffer(s, {s.block("B"), 0}), E218);
  ASSERT_OK(compute_inline(s, {t}));
  EXPECT_ERROR(double_buffer(s, {t, 0}), E206);

  auto carried = schedule_from(staged("T[max(vi - 2, 0)]"));
  EXPECT_ERROR(double_buffer(carried, {carried.block("T"), 0}), E227);

  auto apart = schedule_from(R"(
func apart(A: f32[8], B: f32[8] output):
  alloc T: f32[8]
  alloc S: f32[8]
  for i in 8:
    block T(vi: spatial[8] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi]
  for j in 8:
    for k in 4:
      block S(vj: spatial[8] = j, vk: reduce[4] = k):
        reads T[vj]
        writes S[vj]
        init:
          S[vj] = 0.0
        S[vj] = S[vj] + T[vj]
    block B(vj: spatial[8] = j):
      reads S[vj]
      writes B[vj]
      B[vj] = S[vj]
)");
  EXPECT_ERROR(double_buffer(apart, {apart.block("T"), 0}), E207);
  EXPECT_ERROR(double_buffer(apart, {apart.block("S"), 0}), E211);
}

}  // namespace
}  // namespace fettle
