#include "schedule/primitives/get_consumers.h"

#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kDiamond;
using testing::schedule_from;

TEST(GetConsumers, InProgramOrder) {
  auto s = schedule_from(kDiamond);
  auto blocks = get_consumers(s, {s.block("B")});
  ASSERT_OK(blocks);
  ASSERT_EQ(blocks->size(), 2u);
  EXPECT_EQ(s.block((*blocks)[0])->as<BlockNode>()->name, "C");
  EXPECT_EQ(s.block((*blocks)[1])->as<BlockNode>()->name, "D");
  EXPECT_TRUE(get_consumers(s, {s.block("D")})->empty());
  EXPECT_REPLAYS(s);
}

TEST(GetConsumers, E225NoBlock) {
  auto s = schedule_from(kDiamond);
  EXPECT_ERROR(get_consumers(s, {BlockRef(s.loop("i"))}), E225);
}

}  // namespace
}  // namespace fettle
