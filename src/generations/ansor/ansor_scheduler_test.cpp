#include "generations/ansor/ansor_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace fettle {
namespace {

/// A task whose best time falls from `start_s` towards `end_s`, by the factor `pace` each round.
struct Curve {
  double start_s = 2e-3, end_s = 1e-3, pace = 0.5;
  double after(int rounds) const { return end_s + (start_s - end_s) * std::pow(pace, rounds); }
};

struct Played {
  std::vector<int> rounds;  // of each task
  std::vector<size_t> order;
};

Played play(TaskScheduler& scheduler, const std::vector<Curve>& curves, int n_rounds) {
  Played played;
  played.rounds.resize(curves.size());
  for (int r = 0; r < n_rounds; ++r) {
    const auto next = scheduler.next();
    if (!next) break;
    EXPECT_FALSE(scheduler.given_up(*next));
    played.order.push_back(*next);
    scheduler.report(*next, {.best_s = curves[*next].after(++played.rounds[*next]), .trials = 8});
  }
  return played;
}

std::vector<SharedTask> once_each(size_t n) { return std::vector<SharedTask>(n, {.weights = {1}}); }

TEST(AnsorScheduler, WarmsUpInTurn) {
  const std::vector<Curve> curves(5);
  const auto scheduler = make_ansor_scheduler(once_each(5), {.epsilon = 0});
  EXPECT_EQ(play(*scheduler, curves, 5).order, (std::vector<size_t>{0, 1, 2, 3, 4}));
}

TEST(AnsorScheduler, IsOptimisticAboutSlowTasks) {
  // Tenfold the time: its turn comes more often, by -g/t alone.
  const std::vector<Curve> curves = {{20e-3, 10e-3, 0.9}, {2e-3, 1e-3, 0.9}, {2e-3, 1e-3, 0.9}};
  const auto scheduler = make_ansor_scheduler(once_each(3), {.epsilon = 0});
  const Played played = play(*scheduler, curves, 60);
  EXPECT_GT(played.rounds[0], 4 * played.rounds[1]);
  EXPECT_GE(played.rounds[1], 2);
}

TEST(AnsorScheduler, WeightsCount) {
  const std::vector<Curve> curves(2);
  const auto scheduler = make_ansor_scheduler({{.weights = {1}}, {.weights = {8}}}, {.epsilon = 0});
  const Played played = play(*scheduler, curves, 40);
  EXPECT_GT(played.rounds[1], 3 * played.rounds[0]);
}

TEST(AnsorScheduler, AStalledTaskGetsLessAndLess) {
  // Both take the same time; one does not improve. What the last rounds brought tells them apart.
  const std::vector<Curve> curves = {{2e-3, 2e-3, 0.5}, {4e-3, 2e-3, 0.93}};
  const auto scheduler = make_ansor_scheduler(once_each(2), {.epsilon = 0, .alpha = 0.8});
  const Played played = play(*scheduler, curves, 40);
  EXPECT_GT(played.rounds[1], played.rounds[0]);
}

TEST(AnsorScheduler, WhatSimilarTasksReachIsHopedFor) {
  // Task 0 is at a tenth of the rate of its like, task 1 at the rate of its like; without that, both are the same.
  std::vector<SharedTask> tasks = {{.weights = {1}, .flops = 1e6, .similar = 0},
                                   {.weights = {1}, .flops = 10e6, .similar = 1},
                                   {.weights = {0}, .flops = 10e6, .similar = 0},
                                   {.weights = {0}, .flops = 10e6, .similar = 1}};
  const std::vector<Curve> curves(4, {1e-3, 1e-3, 0.5});
  const auto rounds = [&] { return play(*make_ansor_scheduler(tasks, {.epsilon = 0, .beta = 1}), curves, 30).rounds; };
  const auto told = rounds();
  EXPECT_GT(told[0], 3 * told[1]);
  for (SharedTask& task : tasks) task.similar = -1;
  const auto untold = rounds();
  EXPECT_NEAR(untold[0], untold[1], 1);
}

TEST(AnsorScheduler, RoundsAtRandomReachEverything) {
  const std::vector<Curve> curves = {{20e-3, 10e-3, 0.9}, {2e-6, 1e-6, 0.9}};
  const auto greedy = make_ansor_scheduler(once_each(2), {.epsilon = 0});
  EXPECT_EQ(play(*greedy, curves, 40).rounds[1], 1);
  const auto curious = make_ansor_scheduler(once_each(2), {.epsilon = 0.5});
  EXPECT_GT(play(*curious, curves, 40).rounds[1], 3);
}

TEST(AnsorScheduler, RequirementsThatAreMetGetNothing) {
  const std::vector<SharedTask> tasks = {{.weights = {1, 0}}, {.weights = {0, 1}}};
  const std::vector<Curve> curves(2, {2e-3, 1e-3, 0.95});
  const auto scheduler =
      make_ansor_scheduler(tasks, {.epsilon = 0, .objective = latency_requirements({10e-3, 0.5e-3})});
  const Played played = play(*scheduler, curves, 30);
  EXPECT_EQ(played.rounds[0], 1);
  EXPECT_EQ(played.rounds[1], 29);
}

TEST(AnsorScheduler, SpeedupCountsRelativeToEachNetwork) {
  // A network ten times slower than the other is not ten times more important, as it is to the sum of latencies.
  const std::vector<SharedTask> tasks = {{.weights = {1, 0}}, {.weights = {0, 1}}};
  const std::vector<Curve> curves = {{20e-3, 10e-3, 0.95}, {2e-3, 1e-3, 0.95}};
  const auto share = [&](Objective objective) {
    const auto scheduler = make_ansor_scheduler(tasks, {.epsilon = 0, .objective = std::move(objective)});
    return play(*scheduler, curves, 60).rounds[0];
  };
  EXPECT_NEAR(share(speedup_over({20e-3, 2e-3})), 30, 3);
  EXPECT_GT(share(sum_of_latencies()), 48);
}

TEST(AnsorScheduler, StopsEarly) {
  const std::vector<Curve> curves = {{1e-3, 1e-3, 0.5}, {2e-3, 1e-3, 0.99}};
  const auto scheduler = make_ansor_scheduler(once_each(2), {.epsilon = 0.3, .early_stop = 4});
  const Played played = play(*scheduler, curves, 100);
  EXPECT_EQ(played.rounds[0], 5);
  EXPECT_EQ(played.rounds[1], 95);
  EXPECT_TRUE(scheduler->given_up(0));
}

TEST(AnsorScheduler, FailuresAndExhaustion) {
  const auto scheduler = make_ansor_scheduler(once_each(2), {.epsilon = 0});
  scheduler->report(0, {.best_s = 0, .trials = 8});  // nothing of it worked
  scheduler->report(1, {.best_s = 1e-3, .trials = 8});
  EXPECT_EQ(scheduler->next(), 0u);
  scheduler->report(0, {.best_s = 0, .trials = 8, .exhausted = true});
  EXPECT_TRUE(scheduler->given_up(0));
  EXPECT_EQ(scheduler->next(), 1u);
}

}  // namespace
}  // namespace fettle
