#include "remote/distance.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

TEST(Distance, TooFarAway) {
  EXPECT_TRUE(check_distance(0.001));
  const auto refused = check_distance(1.3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E806);
}

}  // namespace
}  // namespace fettle
