#include "schedule/primitives/get_child_blocks.h"

#include "schedule/primitives/fuse.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

std::string names_of(const Schedule& s, const std::vector<BlockRef>& blocks) {
  std::string names;
  for (const BlockRef& ref : blocks) names += s.block(ref)->as<BlockNode>()->name + " ";
  return names;
}

TEST(GetChildBlocks, OfABlockAndOfALoop) {
  auto s = schedule_from("for i in 8: B[i] = A[i]\nfor j in 8: C[j] = B[j]");
  auto all = get_child_blocks(s, {s.block("root")});
  ASSERT_OK(all);
  EXPECT_EQ(names_of(s, *all), "B C ");
  auto of_loop = get_child_blocks(s, {s.loop("j")});
  ASSERT_OK(of_loop);
  EXPECT_EQ(names_of(s, *of_loop), "C ");
  EXPECT_REPLAYS(s);
}

TEST(GetChildBlocks, E206ConsumedLoop) {
  auto s = schedule_from("for i in 8: for j in 4: B[i, j] = A[i, j]");
  const LoopRef i = s.loop("i"), j = s.loop("j");
  ASSERT_OK(fuse(s, {{i, j}}));
  EXPECT_ERROR(get_child_blocks(s, {i}), E206);
}

TEST(GetChildBlocks, E225NeitherLoopNorBlock) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  auto v = sample_categorical(s, {{1}, {1.0}, "v"});
  ASSERT_OK(v);
  EXPECT_ERROR(get_child_blocks(s, {*v}), E225);
}

}  // namespace
}  // namespace fettle
