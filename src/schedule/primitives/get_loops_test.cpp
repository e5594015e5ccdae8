#include "schedule/primitives/get_loops.h"

#include "schedule/primitives/get_block.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

TEST(GetLoops, OutermostFirst) {
  auto s = schedule_from("for i in 8: for j in 4: B[i, j] = A[i, j]");
  auto loops = get_loops(s, {s.block("B")});
  ASSERT_OK(loops);
  ASSERT_EQ(loops->size(), 2u);
  EXPECT_EQ(s.loop_var((*loops)[0]).value()->name, "i");
  EXPECT_EQ(s.loop_var((*loops)[1]).value()->name, "j");
  ASSERT_OK(split(s, {(*loops)[0], {2, 4}}));
  EXPECT_EQ(get_loops(s, {s.block("B")})->size(), 3u);
  EXPECT_REPLAYS(s);
}

TEST(GetLoops, NoneAroundTheRoot) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  auto loops = get_loops(s, {s.block("root")});
  ASSERT_OK(loops);
  EXPECT_TRUE(loops->empty());
  EXPECT_REPLAYS(s);
}

TEST(GetLoops, UpToTheEnclosingBlock) {
  auto s = schedule_from(R"(
func nested(A: f32[4, 4], B: f32[4, 4] output):
  for i in 4:
    block outer(vi: spatial[4] = i):
      reads A[vi, 0 +: 4]
      writes B[vi, 0 +: 4]
      for j in 4:
        block inner(vii: spatial[4] = vi, vj: spatial[4] = j):
          reads A[vii, vj]
          writes B[vii, vj]
          B[vii, vj] = A[vii, vj]
)");
  auto loops = get_loops(s, {s.block("inner")});
  ASSERT_OK(loops);
  ASSERT_EQ(loops->size(), 1u);
  EXPECT_EQ(s.loop_var(loops->front()).value()->name, "j");
}

TEST(GetLoops, E225NoBlock) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  EXPECT_ERROR(get_loops(s, {BlockRef(s.loop("i"))}), E225);
  EXPECT_ERROR(get_loops(s, {}), E225);
}

}  // namespace
}  // namespace fettle
