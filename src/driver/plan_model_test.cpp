#include "driver/plan_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "graph/testing.h"
#include "ir/text.h"

namespace fettle {
namespace {

CompileOptions options_for_one_thread() {
  CompileOptions options;
  options.target = detect_host(1);
  return options;
}

/// Depthwise convolutions, each with the 1x1 convolution that may join it.
void add_separable_layers(GraphMaker& m, const std::vector<int64_t>& channels) {
  Value* x = m.input("x", {1, channels.front(), 12, 14});
  for (const int64_t n : channels) {
    x = m.node("Relu", {m.conv(x, x->extent(1), 3, x->extent(1))});
    x = m.node("Relu", {m.conv(x, n, 1)});
  }
  m.graph.add_output("y", x);
  m.graph.sort();
}

TEST(PlanModel, WithoutRecordsAGraphIsPlannedOnce) {
  GraphMaker m;
  add_separable_layers(m, {8, 24, 200});
  Plans plans(m.graph);
  const auto planned = plan_model(plans, options_for_one_thread());
  ASSERT_TRUE(planned.has_value()) << planned.error().to_string();
  EXPECT_EQ(planned->plans_made, 1);
  EXPECT_EQ(plans.made(), 1);
}

// That images get where one convolution makes the output; `asked` where one is asked for.
ImageLayout layout_of_one(GraphMaker& m, Value* made, std::optional<ImageLayout> asked = {}) {
  m.graph.add_output("y", made);
  m.graph.sort();
  Plans plans(m.graph);
  CompileOptions options = options_for_one_thread();
  options.target = *parse_target("x86-64-avx512");
  if (asked) options.layout = *asked;
  const auto planned = plan_model(plans, options);
  EXPECT_TRUE(planned.has_value()) << planned.error().to_string();
  return planned->plan.layout;
}

// Few channels of each group: copies to channels last and back take longer than the products.
TEST(PlanModel, ConvolutionsOfGroupsMayStayChannelsFirst) {
  GraphMaker m;
  EXPECT_EQ(layout_of_one(m, m.conv(m.input("x", {1, 96, 33, 33}), 128, 1, 4)), ImageLayout::kChannelsFirst);
}

// Between a model's edges and a depthwise convolution there would be two copies of the image.
TEST(PlanModel, FewNodesGetTheLayoutThatIsPredictedToTakeLess) {
  for (const bool depthwise : {true, false})
    for (const std::optional<ImageLayout> asked : {std::optional<ImageLayout>(), {ImageLayout::kChannelsLast}}) {
      GraphMaker m;
      const ImageLayout made =
          layout_of_one(m, m.conv(m.input("x", {1, 64, 56, 56}), 64, 3, depthwise ? 64 : 1), asked);
      EXPECT_EQ(made, depthwise && !asked ? ImageLayout::kChannelsFirst : ImageLayout::kChannelsLast);
    }
}

TEST(PlanModel, WithRecordsAPlanIsMadeForEachThatDiffers) {
  GraphMaker m;
  add_separable_layers(m, {8, 24});
  const std::shared_ptr<Database> database = make_memory_database();
  const CompileOptions options = options_for_one_thread();
  Plans plans(m.graph);
  ModelChoice choice;
  choice.fused = *fused_hashes(m.graph, choice.layout, {0, 1});
  ASSERT_TRUE(keep_choice(plans, *database, options.target, 1, choice));
  const auto planned = plan_known(plans, database, options);
  ASSERT_TRUE(planned.has_value()) << planned.error().to_string();
  EXPECT_EQ(planned->plan.fused, (std::vector<int>{0, 1}));
  EXPECT_EQ(plans.made(), 2);  // by rule, which names the model, and the chosen one
  ASSERT_TRUE(plan_known(plans, database, options));
  EXPECT_EQ(plans.made(), 2);
}

TEST(PlanModel, AChoiceIsOfTheSourcesThatItCompared) {
  GraphMaker m;
  add_separable_layers(m, {8, 24});
  const std::shared_ptr<Database> database = make_memory_database();
  const Target target = detect_host(1);
  Plans plans(m.graph);
  const KernelSources all = kernel_sources();
  ASSERT_FALSE(all.empty());
  ModelChoice beside_a_library;
  beside_a_library.untuned = true;
  ASSERT_TRUE(keep_choice(plans, *database, target, 1, beside_a_library, all));
  EXPECT_FALSE(find_choice(plans, *database, target, 1)->has_value()) << "it says nothing of Fettle's kernels alone";
  ASSERT_TRUE(keep_choice(plans, *database, target, 1, ModelChoice()));
  EXPECT_FALSE((*find_choice(plans, *database, target, 1))->untuned);
  EXPECT_TRUE((*find_choice(plans, *database, target, 1, all))->untuned);
}

TEST(PlanModel, DefaultsThatWereConstructedForCostsAreHandedOn) {
  GraphMaker m;
  add_separable_layers(m, {8, 24});
  Plans plans(m.graph);
  const auto planned = plan_model(plans, options_for_one_thread());
  ASSERT_TRUE(planned.has_value()) << planned.error().to_string();
  // All but the copies from and to the model's layout were compared.
  const auto compared =
      std::ranges::count_if(planned->plan.workloads, [](const auto& w) { return w.func->name != "Copy"; });
  EXPECT_EQ(compared, 3);
  EXPECT_EQ(planned->defaults_handed_on, compared);
  // They are what would be constructed.
  for (size_t w = 0; w < planned->requests.size(); ++w) {
    const KernelRequest& request = planned->requests[w];
    const auto fresh = schedule_for(request, planned->options.target, 1);
    ASSERT_TRUE(fresh);
    EXPECT_EQ(to_text(fresh->trace()), planned->schedules[w].trace);
    EXPECT_EQ(to_text(fresh->func()), planned->schedules[w].program);
  }
}

TEST(PlanModel, TasksMayKeepTheirDefaults) {
  GraphMaker m;
  Value* x = m.input("x", {1, 4, 6, 6});
  m.graph.add_output("y", m.node("Relu", {m.conv(m.conv(x, 12, 1), 4, 3)}));
  m.graph.sort();
  const auto plan = make_plan(m.graph);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->workloads.size(), 2u);
  const auto find =
      except({plan->workloads[1].hash, {}}, [](const Func&) { return std::optional<std::string>("a trace"); });
  EXPECT_TRUE(find(plan->workloads[0].func));
  EXPECT_FALSE(find(plan->workloads[1].func));
}

TEST(PlanModel, KnowsWhatWillBeStored) {
  GraphMaker m;
  add_separable_layers(m, {8, 24});
  Plans plans(m.graph);
  const auto planned = plan_model(plans, options_for_one_thread());
  ASSERT_TRUE(planned.has_value());
  EXPECT_GT(planned->constants.stored_bytes(), 0);
  EXPECT_EQ(planned->constants.weight_bytes, (8 * 9 + 8 * 8 + 8 * 9 + 8 * 24) * 4);
  EXPECT_GT(planned->arena_bytes(), 0);
  EXPECT_EQ(planned->tasks().size(), planned->schedules.size());
}

}  // namespace
}  // namespace fettle
