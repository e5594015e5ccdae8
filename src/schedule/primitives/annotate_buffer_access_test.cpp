#include "schedule/primitives/annotate_buffer_access.h"

#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/read_at.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kTwo;
using testing::map_of;
using testing::schedule_from;

// The other place where the block reads the buffer stays known.
TEST(AnnotateBufferAccess, OneOfTwoRegionsOfABuffer) {
  auto s = schedule_from(R"(
func gram(A: f32[3, 4], B: f32[3, 3] output):
  for i in 3:
    for j in 3:
      for k in 4:
        block B(vi: spatial[3] = i, vj: spatial[3] = j, vk: reduce[4] = k):
          reads A[vi, vk], A[vj, vk]
          writes B[vi, vj]
          init:
            B[vi, vj] = 0.0
          B[vi, vj] = B[vi, vj] + A[vi, vk] * A[vj, vk]
)");
  const BlockRef b = s.block("B");
  ASSERT_OK(annotate_buffer_access(s, {b, 1, "read", map_of("(i, j, k) -> (j, j + 1, k, k + 1)")}));
  ASSERT_OK(read_at(s, {s.loop("j"), b, 0, "global"}));
  EXPECT_SAME_RESULT(s);
}

TEST(AnnotateBufferAccess, ALargerRegionIsComputed) {
  auto s = schedule_from(kTwo);
  const BlockRef c = s.block("C"), t = s.block("T");
  ASSERT_OK(annotate_buffer_access(s, {c, 0, "read", map_of("(i, j) -> (i // 2 * 2, i // 2 * 2 + 2, j, j + 1)")}));
  EXPECT_GOLDEN(s.func());
  ASSERT_OK(compute_at(s, {t, get_loops(s, {c})->front()}));
  EXPECT_TRUE(is_int(s.loop(get_loops(s, {t})->at(1))->as<ForNode>()->extent, 2));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(AnnotateBufferAccess, Errors) {
  auto s = schedule_from(kTwo);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(annotate_buffer_access(s, {c, 0, "read", map_of("(i, j) -> (i, i, j, j + 1)")}), E216);
  EXPECT_ERROR(annotate_buffer_access(s, {c, 0, "read", map_of("(i, j) -> (1, 8, j, j + 1)")}), E216);
  EXPECT_ERROR(annotate_buffer_access(s, {c, 0, "write", map_of("(i, j) -> (0, 8, j, j + 1)")}), E216);
  ASSERT_OK(annotate_buffer_access(s, {c, 0, "write", map_of("(i, j) -> (i, i + 1, j, j + 1)")}));
  EXPECT_ERROR(annotate_buffer_access(s, {c, 0, "read", map_of("(i, j) -> (i, i + 1)")}), E241);
  EXPECT_ERROR(annotate_buffer_access(s, {c, 0, "read", map_of("(i) -> (0, 8, 0, 6)")}), E241);
  EXPECT_ERROR(annotate_buffer_access(s, {c, 0, "both", map_of("(i, j) -> (0, 8, 0, 6)")}), E241);
  EXPECT_ERROR(annotate_buffer_access(s, {c, 1, "write", map_of("(i, j) -> (0, 8, 0, 6)")}), E220);
  EXPECT_ERROR(annotate_buffer_access(s, {BlockRef(StepRef{99, 0}), 0, "read", map_of("(i) -> (i)")}), E225);
}

TEST(AnnotateBufferAccess, OtherErrors) {
  auto s = schedule_from(kTwo);
  const BlockRef t = s.block("T");
  ASSERT_OK(compute_inline(s, {t}));
  EXPECT_ERROR(annotate_buffer_access(s, {t, 0, "read", map_of("(i, j) -> (0, 8, 0, 6)")}), E206);
}

}  // namespace
}  // namespace fettle
