#include "graph/constant.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace fettle {
namespace {

TEST(Constant, FloatsAsIntegersAreTruncatedAndSaturated) {
  EXPECT_EQ(scalar(-2.75).int_at(0), -2);
  EXPECT_EQ(scalar(1e30).int_at(0), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(scalar(-1e30, kF64).int_at(0), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(scalar(std::numeric_limits<double>::quiet_NaN()).int_at(0), 0);
  EXPECT_EQ(scalar(std::numeric_limits<double>::infinity(), kBF16).int_at(0), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace fettle
