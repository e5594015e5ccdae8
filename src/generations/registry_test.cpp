#include "generations/registry.h"

#include <gtest/gtest.h>

#include <set>

#include "codegen/build.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"
#include "tune/testing.h"
#include "tune/tuner.h"

namespace fettle {
namespace {

using testing::FakeRunner;
using testing::toy_workload;
using testing::ToySpace;

Target cpu() { return *parse_target("x86-64-avx512"); }
Target gpu() { return *parse_target("cuda"); }

template <class Def>
void expect_distinct(std::span<const Def> defs, const Def* (*find)(std::string_view)) {
  std::set<std::string_view> names;
  for (const Def& def : defs) {
    EXPECT_TRUE(names.insert(def.name).second) << def.name;
    EXPECT_EQ(find(def.name), &def);
    EXPECT_FALSE(def.meaning.empty()) << def.name;
  }
  EXPECT_EQ(find("none"), nullptr);
}

TEST(Registry, NamesAreDistinctAndFound) {
  expect_distinct(spaces(), find_space);
  expect_distinct(strategies(), find_strategy);
  expect_distinct(cost_models(), find_cost_model);
  expect_distinct(schedulers(), find_scheduler);
  EXPECT_EQ(find_space("template"), find_space("autotvm"));
}

TEST(Registry, WithoutNamesItIsTheProductsOwn) {
  const auto setup = resolve_search({}, cpu());
  ASSERT_OK(setup);
  EXPECT_EQ(setup->space->name, "rules");
  EXPECT_EQ(setup->strategy, nullptr);  // the default, as TuneOptions have it
  EXPECT_EQ(strategies().front().name, "evolutionary");
  EXPECT_EQ(setup->cost_model->name, "trees");
  EXPECT_EQ(setup->scheduler->name, "gradient");
  EXPECT_EQ(setup->generation, nullptr);
}

TEST(Registry, AGenerationIsItsOwnChoiceOfAllFour) {
  const char* const expected[][5] = {{"autotvm", "autotvm", "annealing", "autotvm_itervar_rank", "round-robin"},
                                     {"ansor", "ansor", "ansor", "statements", "ansor"},
                                     {"metaschedule", "metaschedule", "metaschedule", "statements", "metaschedule"},
                                     {"tensor_comprehensions", "polyhedral", "roulette", "prediction", "round-robin"}};
  EXPECT_EQ(generations().size(), std::size(expected));
  for (const auto& [name, space, strategy, cost_model, scheduler] : expected) {
    const auto setup = resolve_search({.generation = name}, cpu());
    ASSERT_OK(setup);
    EXPECT_EQ(setup->generation, find_generation(name));
    EXPECT_EQ(setup->space->name, space);
    EXPECT_EQ(setup->strategy->name, strategy);
    EXPECT_EQ(setup->cost_model->name, cost_model);
    EXPECT_EQ(setup->scheduler->name, scheduler);
    // Said twice is no contradiction.
    EXPECT_OK(resolve_search({name, space, strategy, cost_model, scheduler}, cpu()));
  }
}

TEST(Registry, WhatContradictsAGenerationIsRefused) {
  EXPECT_ERROR(resolve_search({.generation = "ansor", .space = "rules"}, cpu()), E709);
  EXPECT_ERROR(resolve_search({.generation = "ansor", .strategy = "random"}, cpu()), E709);
  EXPECT_ERROR(resolve_search({.generation = "autotvm", .cost_model = "trees"}, cpu()), E709);
  EXPECT_ERROR(resolve_search({.generation = "metaschedule", .scheduler = "gradient"}, cpu()), E709);
  const auto refused = resolve_search({.generation = "ansor", .strategy = "random"}, cpu());
  EXPECT_NE(refused.error().to_string().find("ansor has strategy ansor, not random"), std::string::npos);
}

TEST(Registry, WhatIsOnesOwnGoesWithNamesAndWithNoGeneration) {
  const auto setup = resolve_search({.space = kOwn, .strategy = "genetic", .cost_model = kOwn}, gpu());
  ASSERT_OK(setup);
  EXPECT_EQ(setup->space, nullptr);
  EXPECT_EQ(setup->cost_model, nullptr);
  EXPECT_EQ(setup->strategy->name, "genetic");
  EXPECT_ERROR(resolve_search({.generation = "ansor", .space = kOwn}, cpu()), E709);
}

TEST(Registry, UnknownNamesAreRefusedWithThoseThatThereAre) {
  EXPECT_ERROR(resolve_search({.generation = "halide"}, cpu()), E709);
  EXPECT_ERROR(resolve_search({.space = "magic"}, cpu()), E709);
  EXPECT_ERROR(resolve_search({.strategy = "magic"}, cpu()), E709);
  EXPECT_ERROR(resolve_search({.cost_model = "magic"}, cpu()), E709);
  EXPECT_ERROR(resolve_search({.scheduler = "magic"}, cpu()), E709);
  const auto refused = resolve_search({.space = "magic"}, cpu());
  EXPECT_NE(refused.error().to_string().find("'magic' is none of rules, "), std::string::npos);
}

TEST(Registry, SpacesOfCpusAreRefusedForGpus) {
  for (const SpaceDef& def : spaces()) {
    const auto setup = resolve_search({.space = def.name}, gpu());
    EXPECT_EQ(setup.has_value(), def.on_gpus) << def.name;
    if (!setup) {
      EXPECT_NE(setup.error().to_string().find(def.name), std::string::npos);
    }
  }
  EXPECT_OK(resolve_search({}, gpu()));  // the product's own has
  // What is said to have programs there has some.
  for (const SpaceDef& def : spaces()) {
    if (!def.on_gpus) continue;
    const auto space = def.make();
    const Func product = testing::matmul_workload(64, 64, 64, false, false, true, false);
    int made = 0;
    for (uint64_t seed = 0; seed < 20 && made == 0; ++seed)
      made += space->generate(product, std::make_shared<const Target>(gpu()), 1, seed, nullptr).has_value();
    EXPECT_GT(made, 0) << def.name;
  }
}

/// Times that follow from the program's text alone.
MeasureResult hashed_time(const Func& func, int, const MeasureRequest&) {
  return FakeRunner::timed(1e-6 * static_cast<double>(100 + hash_bytes(to_text(func)) % 97));
}

class Pairings : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Pairings, TuneASmallProduct) {
  const SpaceDef& space = *find_space(std::get<0>(GetParam()));
  const StrategyDef& strategy = *find_strategy(std::get<1>(GetParam()));
  FakeRunner runner;
  runner.outcome = hashed_time;
  const auto database = make_memory_database();
  const auto made = space.make();
  const CostModelDef& learner = cost_models().front();
  const auto model = learner.make(1);
  TuneOptions options;
  options.seed = 3;
  options.max_trials = 7;
  options.batch = 3;
  options.first_points = 24;
  options.space = made.get();
  options.strategy = &strategy;
  options.describe = learner.describe(std::make_shared<const Target>(cpu()), 1, nullptr);
  const auto report = tune_task(testing::matmul_workload(12, 16, 24, false, false, true, false), cpu(), 1, *database,
                                runner, *model, options);
  ASSERT_OK(report);
  EXPECT_GE(report->trials, strategy.name == "descent" ? 2 : 7);  // which ends where all around is worse
  EXPECT_EQ(report->failed, 0);
  EXPECT_GT(report->best_s, 0);
}

std::vector<std::string> space_names() {
  std::vector<std::string> names;
  for (const SpaceDef& def : spaces()) names.emplace_back(def.name);
  return names;
}
std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const StrategyDef& def : strategies()) names.emplace_back(def.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Pairings,
                         ::testing::Combine(::testing::ValuesIn(space_names()), ::testing::ValuesIn(strategy_names())),
                         [](const auto& info) { return std::get<0>(info.param) + "_by_" + std::get<1>(info.param); });

class Models : public ::testing::TestWithParam<std::string> {};

TEST_P(Models, GoWithEveryStrategy) {
  const CostModelDef& learner = *find_cost_model(GetParam());
  const ToySpace space;
  for (const StrategyDef& strategy : strategies()) {
    FakeRunner runner;
    const auto database = make_memory_database();
    const auto model = learner.make(1);
    TuneOptions options;
    options.seed = 3;
    options.max_trials = 25;
    options.first_points = 24;
    options.train_each_batch = true;
    options.space = &space;
    options.strategy = &strategy;
    options.describe = learner.describe(std::make_shared<const Target>(cpu()), 1, nullptr);
    if (learner.describe_unpredicted)
      options.describe_unpredicted = learner.describe_unpredicted(std::make_shared<const Target>(cpu()), 1, nullptr);
    const auto report = tune_task(toy_workload(), cpu(), 1, *database, runner, *model, options);
    ASSERT_OK(report);
    EXPECT_EQ(report->trials, 25) << strategy.name;
  }
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const CostModelDef& def : cost_models()) names.emplace_back(def.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Models, ::testing::ValuesIn(model_names()), [](const auto& info) { return info.param; });

TEST(Schedulers, EachGivesEachTaskItsShare) {
  for (const SchedulerDef& def : schedulers()) {
    const ToySpace space;
    FakeRunner runner;
    const auto database = make_memory_database();
    const auto model = make_prediction_only();
    TuneOptions options;
    options.seed = 5;
    options.max_trials = 64;  // fewer than the first needs to be done
    options.first_points = 40;
    options.space = &space;
    options.describe = testing::toy_describe();
    options.scheduler.negligible = 0;
    options.make_scheduler = def.make({});
    const auto report = tune_tasks({{toy_workload(96), 100, "often"}, {toy_workload(48), 1, "seldom"}}, cpu(), 1,
                                   *database, runner, *model, options);
    ASSERT_OK(report);
    const int64_t often = report->tasks[0].trials, seldom = report->tasks[1].trials;
    EXPECT_GT(seldom, 1) << def.name;  // each task once, before any twice
    if (def.name == "round-robin")
      EXPECT_LE(std::abs(often - seldom), 8);
    else
      EXPECT_GT(often, 2 * seldom) << def.name;
  }
}

TEST(Schedulers, GoalsAreOfThoseThatHaveThem) {
  for (const SchedulerDef& def : schedulers()) EXPECT_EQ(def.has_goals, def.name == "ansor");
  // A requirement that is met leaves nothing to gain there: the other task gets the batches.
  const auto batches = [](const AnsorGoal& goal) {
    const auto scheduler = ansor_scheduling(goal)({{.weight = 1, .default_s = 1e-3, .flops = 1e6, .similar = 0},
                                                   {.weight = 1, .default_s = 1e-3, .flops = 1e6, .similar = 1}},
                                                  1);
    std::array<int, 2> count = {0, 0};
    double best_s = 1e-3;
    for (int round = 0; round < 12; ++round) {
      const auto task = scheduler->next();
      if (!task) break;
      ++count[*task];
      if (*task == 0) best_s *= 0.9;
      scheduler->report(*task, {.best_s = *task == 0 ? best_s : 1e-3, .trials = 8});
    }
    return count;
  };
  EXPECT_EQ(batches({.early_stop = 1})[1], 2);  // one without progress, and it is stopped
  EXPECT_GT(batches({})[1], 2);
}

}  // namespace
}  // namespace fettle
