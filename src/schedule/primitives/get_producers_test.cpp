#include "schedule/primitives/get_producers.h"

#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kDiamond;
using testing::schedule_from;

TEST(GetProducers, InProgramOrder) {
  auto s = schedule_from(kDiamond);
  auto blocks = get_producers(s, {s.block("D")});
  ASSERT_OK(blocks);
  ASSERT_EQ(blocks->size(), 2u);
  EXPECT_EQ(s.block((*blocks)[0])->as<BlockNode>()->name, "B");
  EXPECT_EQ(s.block((*blocks)[1])->as<BlockNode>()->name, "C");
  EXPECT_TRUE(get_producers(s, {s.block("B")})->empty());
  EXPECT_TRUE(get_producers(s, {s.block("root")})->empty());
  EXPECT_REPLAYS(s);
}

TEST(GetProducers, E225NoBlock) {
  auto s = schedule_from(kDiamond);
  EXPECT_ERROR(get_producers(s, {BlockRef(s.loop("i"))}), E225);
}

}  // namespace
}  // namespace fettle
