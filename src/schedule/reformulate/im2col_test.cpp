#include "schedule/primitives/reformulate.h"
#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kStridedConv;
using testing::schedule_from;

TEST(Im2col, AConvolutionIsAMatrixProduct) {
  auto s = schedule_from(kStridedConv);
  auto blocks = reformulate(s, {s.block("C"), "im2col", {0}});
  ASSERT_OK(blocks);
  ASSERT_EQ(blocks->size(), 2u);
  EXPECT_EQ(get_loops(s, {(*blocks)[1]})->size(), 3u);
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Im2col, Depthwise) {
  auto s = schedule_from("for c in 3: for h in 5: for r in 3: C[c, h] += A[c, h + r] * F[c, r]");
  ASSERT_OK(reformulate(s, {s.block("C"), "im2col", {0}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Im2col, E228WhereThePatternDoesNotFit) {
  auto s = schedule_from(kStridedConv);
  const BlockRef c = s.block("C");
  EXPECT_ERROR(reformulate(s, {c, "im2col", {}}), E228);
  EXPECT_ERROR(reformulate(s, {c, "im2col", {7}}), E228);
  EXPECT_ERROR(reformulate(s, {c, "im2col", {1}}), E228);  // the filter has no window
  auto copy = schedule_from("for i in 4: B[i] = A[i]");
  EXPECT_ERROR(reformulate(copy, {copy.block("B"), "im2col", {0}}), E228);
  auto partly = schedule_from("for h in 5: for r in 3: for c in 2: C[h] += A[h + r] * F[r, c]");
  EXPECT_ERROR(reformulate(partly, {partly.block("C"), "im2col", {0}}), E228);
}

}  // namespace
}  // namespace fettle
