// Candidates do not depend on how many threads make them.

#include "tune/search/point_makers.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "generations/ansor/cost/statement_trees.h"
#include "generations/ansor/search/population_search.h"
#include "generations/ansor/sketch/sketch_space.h"
#include "generations/autotvm/cost/autotvm_trees.h"
#include "generations/autotvm/search/tuners.h"
#include "generations/autotvm/template/template_def.h"
#include "tune/describe.h"
#include "tune/search/search_strategy.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

// Some batches of a search in which everything takes as long as predicted.
std::vector<std::string> searched(const Space& space, const Func& workload, const char* strategy, int search_threads) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const auto model = make_prediction_only();
  Workbench bench(space, workload, target, 2, *model, describe_by_lowering(target, 2), search_threads);
  std::unique_ptr<SearchStrategy> search;
  if (std::string(strategy) == "population")
    search = make_population_search(bench, {.seed = 5, .population = 48, .generations = 2, .crossover = 0.2});
  else
    search = make_evolutionary_search(bench, {.seed = 5, .random_points = 64, .population = 16});
  std::vector<std::string> result;
  for (int batch = 0; batch < 3; ++batch) {
    std::vector<Observation> observations;
    for (const Candidate* candidate : search->propose(8)) {
      observations.push_back({candidate, candidate->features.predicted_seconds});
      result.push_back(std::to_string(candidate->number) + " " + candidate->program.hex() + "\n" +
                       bench.trace(*candidate));
    }
    search->observe(observations);
    bench.rest();
  }
  result.push_back(std::to_string(bench.points()) + " points, " + std::to_string(bench.size()) + " candidates");
  return result;
}

TEST(PointMakers, TheSameCandidatesWithAnyNumberOfThreads) {
  const auto sketches = make_sketch_space();
  const Func matmul = testing::matmul_workload(40, 48, 36, false, false, true, true);
  for (const Space* space : {&rule_space(), static_cast<const Space*>(sketches.get())})
    for (const char* strategy : {"evolution", "population"}) {
      const auto alone = searched(*space, matmul, strategy, 1);
      EXPECT_GT(alone.size(), 9u);
      EXPECT_EQ(alone, searched(*space, matmul, strategy, 2)) << space->name() << " " << strategy;
      EXPECT_EQ(alone, searched(*space, matmul, strategy, 5)) << space->name() << " " << strategy;
    }
}

// Three batches of a search whose model learns after each; times are made up. `predicts_first`: candidates of the first
// batch are predicted. `after`: called with each batch.
std::vector<std::string> learned(
    Workbench& bench, SearchStrategy& search, CostModel& model, bool leaves_predictions_out, bool predicts_first,
    const std::function<void()>& after = [] {}) {
  int64_t unpredicted = 0;
  std::vector<std::string> result;
  for (int batch = 0; batch < 3; ++batch) {
    EXPECT_EQ(model.asks_prediction(), batch == 0);
    std::vector<Observation> observations;
    std::vector<CandidateFeatures> features;
    std::vector<double> seconds;
    for (const Candidate* candidate : search.propose(12)) {
      EXPECT_TRUE(batch > 0 || !predicts_first || !candidate->features.values.empty());
      unpredicted += candidate->features.values.empty();
      features.push_back(candidate->features);
      seconds.push_back(1e-4 * static_cast<double>(1 + hash_bytes(candidate->canonical) % 97));
      observations.push_back({candidate, seconds.back()});
      result.push_back(std::to_string(candidate->number) + " " + bench.trace(*candidate));
    }
    after();
    EXPECT_TRUE(model.update(features, seconds).has_value());
    EXPECT_FALSE(model.asks_prediction());
    search.observe(observations);
  }
  EXPECT_EQ(unpredicted > 0, leaves_predictions_out);
  return result;
}

// With Ansor's model.
std::vector<std::string> searched_by_statements(int search_threads, bool leaves_predictions_out) {
  const auto sketches = make_sketch_space();
  const Func matmul = testing::matmul_workload(40, 48, 36, false, false, true, true);
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const auto model = make_statement_trees(7);
  Workbench bench(*sketches, matmul, target, 2, *model, describe_statements(target, 2), search_threads);
  if (leaves_predictions_out) bench.describe_unpredicted_by(describe_only_statements(target, 2));
  const auto search = make_population_search(bench, {.seed = 5, .population = 48, .generations = 2, .crossover = 0.2});
  return learned(bench, *search, *model, leaves_predictions_out, true);
}

TEST(PointMakers, ATrainedModelOfStatementsNeedsNoPredictions) {
  const auto with_all = searched_by_statements(1, false);
  EXPECT_EQ(with_all.size(), 36u);
  EXPECT_EQ(with_all, searched_by_statements(1, true));
  EXPECT_EQ(with_all, searched_by_statements(2, true));
}

// AutoTVM's search of a template.
std::vector<std::string> annealed(int search_threads, bool leaves_predictions_out) {
  const Func matmul = testing::matmul_workload(40, 48, 36, false, false, true, true);
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const auto model = make_autotvm_trees(7, FeatureKind::kLoop);
  Workbench bench(templates_space(), matmul, target, 2, *model, describe_row(FeatureKind::kLoop, target, 2),
                  search_threads);
  if (leaves_predictions_out) bench.describe_unpredicted_by(describe_only_row(FeatureKind::kLoop, target, 2));
  const auto search = make_annealing_search(bench, {.seed = 5, .chains = 16, .made = 64});
  int64_t made = 0;
  return learned(bench, *search, *model, leaves_predictions_out, false, [&] {
    EXPECT_LE(bench.made() - made, 64 + 2 * 16 + 12 * 20) << "a walk ends with what it may make";
    made = bench.made();
  });
}

TEST(PointMakers, AnnealingMakesTheSameCandidatesWithAnyNumberOfThreads) {
  const auto alone = annealed(1, false);
  EXPECT_EQ(alone.size(), 36u);
  EXPECT_EQ(std::set<std::string>(alone.begin(), alone.end()).size(), 36u);
  EXPECT_EQ(alone, annealed(2, false));
  EXPECT_EQ(alone, annealed(2, true));
}

TEST(PointMakers, ResultsComeInTheOrderOfTheRequests) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const Func pool = testing::pool_workload(14, 14, 16, false, true);
  PointMakers makers(rule_space(), pool, target, 2, 3);
  std::vector<PointRequest> requests(24);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].key = i % 6;
  const std::vector<MadePoint> made = makers.make(requests, describe_by_lowering(target, 2));
  ASSERT_EQ(made.size(), requests.size());
  for (size_t i = 0; i < made.size(); ++i) {
    ASSERT_TRUE(made[i].legal && made[i].lowers);
    EXPECT_EQ(made[i].decisions, made[i % 6].decisions);
    EXPECT_EQ(made[i].canonical, made[i % 6].canonical);
    EXPECT_GT(made[i].features.predicted_seconds, 0);
  }
  EXPECT_NE(made[0].decisions, made[1].decisions);
  EXPECT_TRUE(makers.make({}, {}).empty());
}

}  // namespace
}  // namespace fettle
