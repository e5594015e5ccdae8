#include "driver/preference.h"

#include <gtest/gtest.h>

#include "driver/open.h"
#include "graph/testing.h"

namespace fettle {
namespace {

TEST(Preference, IsKept) {
  GraphMaker m;
  m.graph.add_output("y", m.conv(m.input("x", {1, 8, 6, 6}), 8, 3));
  m.graph.sort();
  const Target target = detect_host(1);
  const std::unique_ptr<Database> database = make_memory_database();
  EXPECT_FALSE(*find_choice(m.graph, *database, target, 1));
  const ModelChoice choice{ImageLayout::kChannelsFirst, false, {0, 3}, {5}};
  ASSERT_TRUE(keep_choice(m.graph, *database, target, 1, choice));
  const auto found = find_choice(m.graph, *database, target, 1);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->layout, choice.layout);
  EXPECT_EQ((*found)->untuned, choice.untuned);
  EXPECT_EQ((*found)->joined, choice.joined);
  EXPECT_EQ((*found)->defaults, choice.defaults);
  EXPECT_FALSE(*find_choice(m.graph, *database, target, 2));
}

TEST(Preference, TasksMayKeepTheirDefaults) {
  GraphMaker m;
  Value* x = m.input("x", {1, 4, 6, 6});
  m.graph.add_output("y", m.node("Relu", {m.conv(m.conv(x, 12, 1), 4, 3)}));
  m.graph.sort();
  const auto plan = make_plan(m.graph);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->workloads.size(), 2u);
  const auto find = except(*plan, {1, 7}, [](const Func&) { return std::optional<std::string>("a trace"); });
  EXPECT_TRUE(find(plan->workloads[0].func));
  EXPECT_FALSE(find(plan->workloads[1].func));
}

}  // namespace
}  // namespace fettle
