#include "schedule/primitives/reorder_block_iter_var.h"

#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kMatmul = "for i in 4: for j in 3: for k in 5: C[i, j] += A[i, k] * B[k, j]";

TEST(ReorderBlockIterVar, Permutes) {
  auto s = schedule_from(kMatmul);
  ASSERT_OK(reorder_block_iter_var(s, {s.block("C"), {2, 0, 1}}));
  EXPECT_EQ(find_block(s.func()->body, "C")->iters.front().kind, IterKind::kReduce);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReorderBlockIterVar, Errors) {
  auto s = schedule_from(kMatmul);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(reorder_block_iter_var(s, {c, {0, 1}}), E241);
  EXPECT_ERROR(reorder_block_iter_var(s, {c, {0, 1, 1}}), E241);
  EXPECT_ERROR(reorder_block_iter_var(s, {c, {0, 1, 3}}), E241);
  EXPECT_ERROR(reorder_block_iter_var(s, {c, {0, 1, -1}}), E241);

  auto two = schedule_from(testing::kTwo);
  const BlockRef gone = two.block("T");
  ASSERT_OK(compute_inline(two, {gone}));
  EXPECT_ERROR(reorder_block_iter_var(two, {gone, {1, 0}}), E206);
}

}  // namespace
}  // namespace fettle
