#include "schedule/primitives/get_block.h"

#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

TEST(GetBlock, ByName) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  auto block = get_block(s, {"B"});
  ASSERT_OK(block);
  EXPECT_EQ(s.block(*block)->as<BlockNode>()->name, "B");
  EXPECT_EQ(s.func(), s.original);
  EXPECT_REPLAYS(s);
}

TEST(GetBlock, E206NoSuchBlock) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  EXPECT_ERROR(get_block(s, {"C"}), E206);
}

}  // namespace
}  // namespace fettle
