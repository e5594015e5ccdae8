#include "schedule/primitives/transform_block_layout.h"

#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/parallel.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::map_of;
using testing::schedule_from;

constexpr const char* kSum = "for i in 6: for j in 4: for k in 5: C[i, j] += A[i, k] * B[k, j]";

TEST(TransformBlockLayout, FusesAndSplitsIterators) {
  auto s = schedule_from(kSum);
  const BlockRef c = s.block("C");
  ASSERT_OK(transform_block_layout(s, {c, map_of("(i, j, k) -> (k, i * 4 + j)")}));
  EXPECT_GOLDEN(s.func());
  ASSERT_OK(transform_block_layout(s, {c, map_of("(k, m) -> (m // 8, k, m % 8)")}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(TransformBlockLayout, Errors) {
  auto s = schedule_from(kSum);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(transform_block_layout(s, {c, map_of("(i, j) -> (i, j)")}), E217);
  EXPECT_ERROR(transform_block_layout(s, {c, map_of("(i, j, k) -> (i, j // 2, k)")}), E217);
  EXPECT_ERROR(transform_block_layout(s, {c, map_of("(i, j, k) -> (i // 4, i % 4, j, k)")}), E217);  // pads
  EXPECT_ERROR(transform_block_layout(s, {c, map_of("(i, j, k) -> (i, j * 5 + k)")}), E217);         // mixes
  EXPECT_ERROR(transform_block_layout(s, {BlockRef(StepRef{99, 0}), map_of("(i) -> (i)")}), E225);
  ASSERT_OK(parallel(s, {s.loop("i")}));
  EXPECT_ERROR(transform_block_layout(s, {c, map_of("(i, j, k) -> (i, k, j)")}), E201);

  auto shared = schedule_from(testing::kTwoInOneLoop);
  EXPECT_ERROR(transform_block_layout(shared, {shared.block("B"), map_of("(i) -> (i // 4, i % 4)")}), E207);
}

TEST(TransformBlockLayout, OtherErrors) {
  auto s = schedule_from(testing::kTwo);
  const BlockRef t = s.block("T");
  ASSERT_OK(compute_inline(s, {t}));
  EXPECT_ERROR(transform_block_layout(s, {t, map_of("(i, j) -> (j, i)")}), E206);
}

}  // namespace
}  // namespace fettle
