#include "generations/autotvm/graph_tuner.h"

#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "base/random.h"
#include "schedule/testing.h"
#include "tune/testing.h"

namespace fettle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double least_cost(const LayoutProblem& problem) {
  double best = kInfinity;
  std::vector<size_t> choices(problem.nodes.size(), 0);
  const std::function<void(size_t)> walk = [&](size_t n) {
    if (n == choices.size()) {
      best = std::min(best, cost_of(problem, choices));
      return;
    }
    for (choices[n] = 0; choices[n] < problem.nodes[n].size(); ++choices[n]) walk(n + 1);
    choices[n] = 0;
  };
  walk(0);
  return best;
}

LayoutProblem random_problem(uint64_t seed, size_t n, size_t extra_edges) {
  RandomStream random{seed, n, extra_edges};
  LayoutProblem problem;
  for (size_t i = 0; i < n; ++i) {
    auto& costs = problem.nodes.emplace_back(1 + random.below(3));
    for (double& cost : costs) cost = random.uniform();
  }
  const auto join = [&](size_t a, size_t b) {
    auto& edge = problem.edges.emplace_back(LayoutProblem::Edge{a, b, {}});
    edge.costs.assign(problem.nodes[a].size(), std::vector<double>(problem.nodes[b].size()));
    for (auto& row : edge.costs)
      for (double& cost : row) cost = random.below(10) == 0 ? kInfinity : random.uniform();
  };
  for (size_t i = 1; i < n; ++i) join(random.below(i), i);
  for (size_t i = 0; i < extra_edges; ++i) {
    const size_t a = random.below(n), b = random.below(n);
    if (a != b) join(a, b);
  }
  return problem;
}

TEST(GraphTuner, TreesByDynamicProgramming) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const LayoutProblem problem = random_problem(seed, 1 + seed % 8, 0);
    const auto solution = choose_layouts_by_dynamic_programming(problem);
    const double best = least_cost(problem);
    if (best == kInfinity) {
      EXPECT_ERROR(solution, E407);
      continue;
    }
    ASSERT_OK(solution);
    EXPECT_NEAR(solution->cost, best, 1e-12);
    EXPECT_TRUE(solution->optimal);
    EXPECT_EQ(solution->cost, cost_of(problem, solution->choices));
  }
}

// Exact where nodes of two neighbours suffice, else nearly so.
TEST(GraphTuner, GraphsByPbqp) {
  int exact = 0, optimal = 0, missed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const LayoutProblem problem = random_problem(seed, 2 + seed % 7, seed % 6);
    const double best = least_cost(problem);
    const auto solution = choose_layouts_by_pbqp(problem);
    if (!solution) {
      EXPECT_ERROR(solution, E407);
      missed += best < kInfinity ? 1 : 0;  // choices made on the way excluded all
      continue;
    }
    EXPECT_GE(solution->cost, best - 1e-12);
    if (solution->optimal) {
      ++exact;
      EXPECT_NEAR(solution->cost, best, 1e-12) << seed;
    }
    optimal += solution->cost < best + 1e-12;
  }
  EXPECT_LT(missed, 10);
  EXPECT_GT(exact, 200);
  EXPECT_GT(optimal, exact);
}

TEST(GraphTuner, ALayoutThatSparesConversionsWins) {
  // Each node is a little faster in its own layout, but conversions cost more than that.
  LayoutProblem problem;
  for (int n = 0; n < 5; ++n) problem.nodes.push_back(n % 2 ? std::vector{1.0, 1.1} : std::vector{1.1, 1.0});
  for (size_t n = 1; n < 5; ++n) problem.edges.push_back({n - 1, n, {{0, 0.3}, {0.3, 0}}});
  const auto solution = choose_layouts_by_dynamic_programming(problem);
  ASSERT_OK(solution);
  EXPECT_EQ(solution->choices, (std::vector<size_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(choose_layouts_by_pbqp(problem)->choices, solution->choices);
}

TEST(GraphTuner, BadProblemsAreRefused) {
  EXPECT_ERROR(choose_layouts_by_pbqp({.nodes = {{}}, .edges = {}}), E709);
  EXPECT_ERROR(choose_layouts_by_pbqp({.nodes = {{NAN}}, .edges = {}}), E709);
  EXPECT_ERROR(choose_layouts_by_pbqp({.nodes = {{1}, {1}}, .edges = {{0, 2, {{0}}}}}), E709);
  EXPECT_ERROR(choose_layouts_by_pbqp({.nodes = {{1}, {1}}, .edges = {{0, 0, {{0}}}}}), E709);
  EXPECT_ERROR(choose_layouts_by_pbqp({.nodes = {{1}, {1, 2}}, .edges = {{0, 1, {{0}}}}}), E709);
  const std::vector<std::vector<double>> zero = {{0}};
  const LayoutProblem ring{.nodes = {{1}, {1}, {1}}, .edges = {{0, 1, zero}, {1, 2, zero}, {2, 0, zero}}};
  EXPECT_ERROR(choose_layouts_by_dynamic_programming(ring), E709);
  EXPECT_EQ(choose_layouts_by_pbqp(ring)->cost, 3);
  EXPECT_EQ(choose_layouts_by_pbqp({})->choices.size(), 0u);
}

TEST(GraphTuner, CostsOfRecords) {
  const auto database = make_memory_database();
  const Target target = parse_target("x86-64-avx512").value();
  const auto key = [&](int64_t n) { return make_task_key(testing::toy_workload(n), target, 1, "versions"); };
  const auto add = [&](const TaskKey& task, double seconds, bool checked) {
    Record record{.task = task, .trace = fmt::format("trace {}", seconds), .median_s = seconds, .min_s = seconds};
    record.checked = checked;
    ASSERT_OK(database->add(record));
  };
  add(key(32), 3e-3, true);
  add(key(32), 2e-3, true);
  add(key(32), 1e-3, false);  // not known to be right
  add(key(48), 1e-3, true);
  const auto problem = layout_problem(*database, {{{key(32), key(48)}}, {{key(32), key(64)}}},
                                      {{0, 1, {{std::nullopt, key(48)}, {key(48), std::nullopt}}}});
  ASSERT_OK(problem);
  EXPECT_EQ(problem->nodes[0], (std::vector{2e-3, 1e-3}));
  EXPECT_EQ(problem->nodes[1][1], kInfinity);  // never measured
  EXPECT_EQ(problem->edges[0].costs, (std::vector<std::vector<double>>{{0, 1e-3}, {1e-3, 0}}));
  EXPECT_NEAR(choose_layouts_by_dynamic_programming(*problem)->cost, 4e-3, 1e-12);
}

}  // namespace
}  // namespace fettle
