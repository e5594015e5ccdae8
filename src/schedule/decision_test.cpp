#include "schedule/decision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "schedule/named_values.h"

namespace fettle {
namespace {

TEST(Decision, IsAListOrAValue) {
  const Decision list = {32, 16}, value = "14x2", none;
  EXPECT_EQ(to_text(list), "[32, 16]");
  EXPECT_EQ(to_text(value), "14x2");
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(value.list().empty());
  EXPECT_TRUE(list.value().empty());
  EXPECT_NE(Decision{0}, Decision("0"));  // a place is not a value
  EXPECT_NE(Decision{0}.hash(), Decision("0").hash());
  EXPECT_EQ(Decision("-2").integer(), -2);
  EXPECT_EQ(value.integer(), std::nullopt);
  EXPECT_EQ(list.integer(), std::nullopt);
}

TEST(Decision, OrderIsByNumbers) {
  const std::vector<Decision> ordered = {Decision(), {1, 64}, {2, 8}, "-2",    "-1",   "2",     "10",
                                         "6x1",      "6x2",   "14x2", "14x10", "none", "unroll"};
  std::vector<Decision> sorted = ordered;
  std::ranges::reverse(sorted);
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, ordered);
  EXPECT_NE(Decision("07") <=> Decision("7x"), Decision("7x") <=> Decision("07"));
}

TEST(NamedValues, AreFoundByTheirNames) {
  const NamedValues integers = {4, -1, 16}, names = std::vector<std::string>{"14x2", "7+2x2"};
  EXPECT_EQ(integers.name(1), "-1");
  EXPECT_EQ(integers.find("-1"), 1u);
  EXPECT_EQ(integers.find("04"), std::nullopt);
  EXPECT_EQ(integers.find(""), std::nullopt);
  EXPECT_EQ(integers.integer(2), 16);
  EXPECT_EQ(names.find("7+2x2"), 1u);
  EXPECT_EQ(names.integer(0), std::nullopt);
  EXPECT_NE(integers.hash(), (NamedValues{4, -1}).hash());
  for (const NamedValues& values : {integers, names, NamedValues()}) {
    NamedValues read;
    EXPECT_TRUE(from_arg(to_arg(values), read));
    EXPECT_EQ(read, values);
  }
  NamedValues read;
  EXPECT_FALSE(from_arg(ArgValue{std::vector<ArgValue>{{int64_t{1}}, {std::string("b")}}}, read));
}

}  // namespace
}  // namespace fettle
