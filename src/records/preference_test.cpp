#include "records/preference.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/testing.h"
#include "ir/compare.h"

namespace fettle {
namespace {

/// Two convolutions that may become one kernel.
void add_separable(GraphMaker& m) {
  Value* filtered = m.node("Relu", {m.conv(m.input("x", {1, 8, 10, 14}), 8, 3, 8)});
  m.graph.add_output("y", m.node("Relu", {m.conv(filtered, 16, 1)}));
  m.graph.sort();
}

TEST(Preference, IsKept) {
  GraphMaker m;
  add_separable(m);
  Plans plans(m.graph);
  const Target target = detect_host(1);
  const std::unique_ptr<Database> database = make_memory_database();
  EXPECT_FALSE(*find_choice(plans, *database, target, 1));
  ModelChoice choice;
  choice.layout = ImageLayout::kChannelsFirst;
  choice.fused = {{0xffffffffffffffff, 1}, {2, 0xfedcba9876543210}};
  choice.defaults = {{5, 6}};
  ASSERT_TRUE(keep_choice(plans, *database, target, 1, choice));
  const auto found = find_choice(plans, *database, target, 1);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->layout, choice.layout);
  EXPECT_EQ((*found)->untuned, choice.untuned);
  EXPECT_EQ((*found)->fused, choice.fused);
  EXPECT_EQ((*found)->defaults, choice.defaults);
  EXPECT_FALSE(*find_choice(plans, *database, target, 2));
}

// As versions before stored it: numbers of convolutions and of workloads.
TEST(Preference, OlderFormsAreNotMisread) {
  GraphMaker m;
  add_separable(m);
  Plans plans(m.graph);
  const Target target = detect_host(1);
  const std::unique_ptr<Database> database = make_memory_database();
  std::string text;
  const Plan* plan = *plans.get();
  for (const PlannedCall& call : plan->calls) text += plan->workloads[static_cast<size_t>(call.workload)].hash.hex();
  const std::string key = digest_bytes(text).hex() + " 1", machine = target.fingerprint().hex();
  ASSERT_TRUE(database->set_fact(machine, "model " + key, std::vector<double>{0, 0, 1, 0, 1}));
  EXPECT_FALSE(*find_choice(plans, *database, target, 1));
  // Nor is what is no choice at all.
  for (const std::vector<double>& wrong : {std::vector<double>{0, 0, 1, 0, 1},
                                           {0, 0, 2, 1, 2, 3, 4},
                                           {7, 0, 0},
                                           {0, 0, 1, 0.5, 2, 3, 4},
                                           {0, 0, 1, -1, 2, 3, 4},
                                           {}}) {
    ASSERT_TRUE(database->set_fact(machine, "choice " + key, wrong));
    EXPECT_FALSE(*find_choice(plans, *database, target, 1));
  }
}

TEST(Preference, FusedConvolutionsGoByTheirPrograms) {
  GraphMaker m;
  add_separable(m);
  ModelChoice choice;
  const auto hashes = fused_hashes(m.graph, choice.layout, {0});
  ASSERT_TRUE(hashes);
  choice.fused = *hashes;
  ASSERT_EQ(choice.fused.size(), 1u);
  EXPECT_EQ(*fused_numbers(m.graph, choice), std::vector<int>{0});
  const auto plan = make_plan(m.graph, {.layout = choice.layout, .fused = {0}});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(std::ranges::any_of(plan->workloads, [&](const auto& w) { return w.hash == choice.fused[0]; }));
  choice.fused = {{1, 2}};
  EXPECT_TRUE(fused_numbers(m.graph, choice)->empty());
}

}  // namespace
}  // namespace fettle
