#include <gtest/gtest.h>

#include "base/ceil_div.h"

namespace fettle {
namespace {

TEST(RoomTest, IsPartOfTheRoomsProgram) { EXPECT_EQ(ceil_div(7, 2), 4); }

}  // namespace
}  // namespace fettle
