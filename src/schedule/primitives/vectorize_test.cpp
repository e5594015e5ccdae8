#include "schedule/primitives/vectorize.h"

#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

const std::string kRowSum = testing::row_sum_program(6, 8);

TEST(Vectorize, SpatialLoop) {
  auto s = schedule_from(kRowSum);
  ASSERT_OK(vectorize(s, {s.loop("i")}));
  EXPECT_EQ(s.loop(s.loop("i"))->as<ForNode>()->loop_kind, ForKind::kVectorized);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Vectorize, PartOfASplitLoop) {
  auto s = schedule_from(kRowSum);
  auto loops = split(s, {s.loop("i"), {kInfer, 4}, Tail::kMask});
  ASSERT_OK(loops);
  ASSERT_OK(vectorize(s, {(*loops)[1]}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Vectorize, E201Twice) {
  auto s = schedule_from(kRowSum);
  ASSERT_OK(vectorize(s, {s.loop("i")}));
  EXPECT_ERROR(vectorize(s, {s.loop("i")}), E201);
}

TEST(Vectorize, E206ConsumedLoop) {
  auto s = schedule_from(kRowSum);
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {2, 3}}));
  EXPECT_ERROR(vectorize(s, {i}), E206);
}

TEST(Vectorize, E210Reduction) {
  auto s = schedule_from(kRowSum);
  const auto refused = vectorize(s, {s.loop("k")});
  EXPECT_ERROR(refused, E210);
  EXPECT_NE(explain(refused.error()).find("^^^"), std::string::npos);  // the place is marked in the program
}

TEST(Vectorize, E210SameElementsInEachIteration) {
  auto s = schedule_from(R"(
func again(A: f32[4], B: f32[4] output):
  for t in 3:
    for i in 4:
      block B(vi: spatial[4] = i):
        reads A[vi]
        writes B[vi]
        B[vi] = A[vi]
)");
  EXPECT_ERROR(vectorize(s, {s.loop("t")}), E210);
}

TEST(Vectorize, E221ExtentNotConstant) {
  auto s = schedule_from(testing::kSymbolicCopy);
  EXPECT_ERROR(vectorize(s, {s.loop("i")}), E221);
}

}  // namespace
}  // namespace fettle
