#include "schedule/primitives/fuse.h"

#include "schedule/primitives/parallel.h"
#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kCube = "for i in 3: for j in 4: for k in 5: B[i, j, k] = A[i, j, k]";

TEST(Fuse, TwoLoops) {
  auto s = schedule_from(kCube);
  auto fused = fuse(s, {{s.loop("i"), s.loop("j")}});
  ASSERT_OK(fused);
  EXPECT_EQ(*as_int(s.loop(*fused)->as<ForNode>()->extent), 12);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Fuse, ThreeLoops) {
  auto s = schedule_from(kCube);
  auto fused = fuse(s, {{s.loop("i"), s.loop("j"), s.loop("k")}});
  ASSERT_OK(fused);
  EXPECT_EQ(*as_int(s.loop(*fused)->as<ForNode>()->extent), 60);
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Fuse, UndoesASplitAndKeepsItsTail) {
  auto s = schedule_from("for i in 10: B[i] = A[i]");
  auto loops = split(s, {s.loop("i"), {kInfer, 4}, Tail::kPartition});
  ASSERT_OK(loops);
  auto fused = fuse(s, {*loops});
  ASSERT_OK(fused);
  EXPECT_EQ(s.loop(*fused)->as<ForNode>()->tail, Tail::kPartition);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Fuse, OneLoopIsItself) {
  auto s = schedule_from(kCube);
  const Func before = s.func();
  auto fused = fuse(s, {{s.loop("i")}});
  ASSERT_OK(fused);
  EXPECT_EQ(s.func(), before);
  EXPECT_OK(s.loop(*fused));
}

TEST(Fuse, E201NotSerial) {
  auto s = schedule_from(kCube);
  ASSERT_OK(parallel(s, {s.loop("i")}));
  EXPECT_ERROR(fuse(s, {{s.loop("i"), s.loop("j")}}), E201);
}

TEST(Fuse, E206NoSuchLoop) {
  auto s = schedule_from(kCube);
  const LoopRef i = s.loop("i"), j = s.loop("j");
  ASSERT_OK(fuse(s, {{i, j}}));
  EXPECT_ERROR(fuse(s, {{i, s.loop("k")}}), E206);
}

TEST(Fuse, E207NotDirectlyNestedOrInAnotherOrder) {
  auto s = schedule_from(kCube);
  EXPECT_ERROR(fuse(s, {{s.loop("i"), s.loop("k")}}), E207);
  EXPECT_ERROR(fuse(s, {{s.loop("j"), s.loop("i")}}), E207);
  EXPECT_ERROR(fuse(s, {{}}), E207);
}

TEST(Fuse, E208InnerBoundsDependOnOuter) {
  auto s = schedule_from(testing::kTriangle);
  EXPECT_ERROR(fuse(s, {{s.loop("i"), s.loop("j")}}), E208);
}

}  // namespace
}  // namespace fettle
