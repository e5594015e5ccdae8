#include "runtime/origins.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

TEST(Origins, OneALine) {
  const auto origins = split_origins("Conv c1\nRelu /layer 1/act");
  ASSERT_EQ(origins.size(), 2u);
  EXPECT_EQ(origins[0].op, "Conv");
  EXPECT_EQ(origins[1].name, "/layer 1/act");
  EXPECT_EQ(origins_to_string("Conv c1\nRelu /layer 1/act", 8), "Conv c1, Relu /layer 1/act");
  EXPECT_EQ(origins_to_string("Conv c1\nRelu r\nAdd a", 1), "Conv c1 and 2 more");
}

TEST(Origins, AnyTextGivesSomeList) {
  EXPECT_TRUE(split_origins("").empty());
  EXPECT_EQ(origins_to_string("", 3), "");
  EXPECT_EQ(split_origins("Conv").at(0).name, "");
  EXPECT_EQ(split_origins("\n\n").size(), 2u);
}

}  // namespace
}  // namespace fettle
