#include "tune/task_scheduler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace fettle {
namespace {

/// A task whose best time falls with each batch towards what can be reached.
struct Curve {
  ScheduledTask task;
  double gain = 0.3;  // of the default's time, in the end
  double pace = 0.5;  // share of the rest that each batch brings
  double after(int batches) const { return task.default_s * (1 - gain * (1 - std::pow(1 - pace, batches))); }
};

struct Played {
  double total_s = 0;        // Σ weight · best
  std::vector<int> batches;  // each task's
  std::vector<size_t> order;
};

Played play(TaskScheduler& scheduler, const std::vector<Curve>& curves, int n_batches) {
  Played played;
  played.batches.resize(curves.size());
  for (int b = 0; b < n_batches; ++b) {
    const auto next = scheduler.next();
    if (!next) break;
    EXPECT_FALSE(scheduler.given_up(*next));
    played.order.push_back(*next);
    scheduler.report(*next, {.best_s = curves[*next].after(++played.batches[*next]), .trials = 8});
  }
  for (size_t i = 0; i < curves.size(); ++i)
    played.total_s += curves[i].task.weight * curves[i].after(played.batches[i]);
  return played;
}

std::vector<ScheduledTask> tasks_of(const std::vector<Curve>& curves) {
  std::vector<ScheduledTask> tasks;
  for (const Curve& curve : curves) tasks.push_back(curve.task);
  return tasks;
}

// A model of n tasks, of which a few dominate.
std::vector<Curve> model(size_t n, uint64_t seed) {
  RandomStream stream{seed};
  std::vector<Curve> curves;
  for (size_t i = 0; i < n; ++i) {
    Curve curve;
    curve.task.weight = static_cast<double>(1 + stream.below(4));
    curve.task.default_s = 1e-3 * std::pow(0.85, static_cast<double>(i));
    curve.gain = 0.4 * stream.uniform();
    curve.pace = 0.2 + 0.6 * stream.uniform();
    curves.push_back(curve);
  }
  return curves;
}

TEST(GradientScheduler, BeatsRoundRobinOnModels) {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    const auto curves = model(60, seed);
    const auto gradient = make_gradient_scheduler(tasks_of(curves), {.seed = seed});
    const auto robin = make_round_robin_scheduler(curves.size());
    double best_s = 0, default_s = 0;
    for (const Curve& curve : curves) {
      best_s += curve.task.weight * curve.after(1000);
      default_s += curve.task.weight * curve.task.default_s;
    }
    const double by_gradient = play(*gradient, curves, 60).total_s, by_robin = play(*robin, curves, 60).total_s;
    EXPECT_LT(by_gradient, by_robin) << seed;
    // Most of what there is to be gained, after as many batches as there are tasks.
    EXPECT_LT(by_gradient - best_s, 0.25 * (default_s - best_s)) << seed;
  }
}

TEST(GradientScheduler, TheHeaviestFirst) {
  const std::vector<Curve> curves = {
      {{.weight = 1, .default_s = 1e-3}}, {{.weight = 10, .default_s = 1e-3}}, {{.weight = 1, .default_s = 4e-3}}};
  const auto scheduler = make_gradient_scheduler(tasks_of(curves), {.greed = 0});
  EXPECT_EQ(play(*scheduler, curves, 1).order, (std::vector<size_t>{1}));
}

TEST(GradientScheduler, EveryTaskThatMattersHasItsTurn) {
  std::vector<Curve> curves(5);
  for (size_t i = 0; i < curves.size(); ++i) curves[i].task.default_s = 1e-3 * static_cast<double>(i + 1);
  const auto scheduler = make_gradient_scheduler(tasks_of(curves), {.greed = 0});
  for (const int batches : play(*scheduler, curves, 25).batches) EXPECT_GE(batches, 1);
}

TEST(GradientScheduler, NegligibleTasksComeLast) {
  const std::vector<Curve> curves = {{{.default_s = 1e-3}, 0.0}, {{.default_s = 1e-6}, 0.5, 0.05}};
  const auto scheduler = make_gradient_scheduler(tasks_of(curves), {.greed = 0.5, .patience = 6, .negligible = 0.002});
  EXPECT_EQ(play(*scheduler, curves, 6).batches[1], 0) << "not at random either";
  EXPECT_TRUE(scheduler->given_up(0));
  EXPECT_EQ(scheduler->next(), 1u);
}

TEST(GradientScheduler, GivesUpWithoutProgress) {
  const std::vector<Curve> curves = {{{.default_s = 1e-3}, 0.0}, {{.default_s = 1e-3}, 0.5, 0.05}};
  const auto scheduler = make_gradient_scheduler(tasks_of(curves), {.patience = 3, .max_trials = 1 << 20});
  const Played played = play(*scheduler, curves, 30);
  EXPECT_EQ(played.batches[0], 3);
  EXPECT_GT(played.batches[1], 20);
  EXPECT_TRUE(scheduler->given_up(0));
}

TEST(GradientScheduler, GivesUpAtTheBound) {
  const std::vector<Curve> curves = {{{.default_s = 1.005e-3, .bound_s = 1e-3}, 0.0},
                                     {{.default_s = 1e-3, .bound_s = 0.7e-3}, 0.3, 0.9}};
  const auto scheduler = make_gradient_scheduler(tasks_of(curves), {.at_bound = 1.01});
  EXPECT_TRUE(scheduler->given_up(0));
  const Played played = play(*scheduler, curves, 100);
  EXPECT_EQ(played.batches[0], 0);
  EXPECT_EQ(played.batches[1], 2);  // 0.3 ms of gain · (1 - 0.1²) = 0.297 ms
  EXPECT_EQ(scheduler->next(), std::nullopt);
}

TEST(GradientScheduler, OneTaskIsCapped) {
  const std::vector<Curve> curves = {{{.default_s = 1}, 0.9, 0.02}};
  const auto scheduler = make_gradient_scheduler(tasks_of(curves), {.max_trials = 80});
  EXPECT_EQ(play(*scheduler, curves, 100).batches[0], 10);
}

TEST(GradientScheduler, ExhaustedTasksAreLeft) {
  const auto scheduler = make_gradient_scheduler({{.default_s = 1}}, {});
  EXPECT_EQ(scheduler->next(), 0u);
  scheduler->report(0, {.best_s = 0.5, .trials = 3, .exhausted = true});
  EXPECT_EQ(scheduler->next(), std::nullopt);
}

TEST(GradientScheduler, ATaskWithoutADefaultIsStillTuned) {
  // Its default failed: what it would have taken is not known, but what its best takes will be.
  const auto scheduler = make_gradient_scheduler({{.default_s = 1e-3, .bound_s = 0}}, {});
  EXPECT_EQ(scheduler->next(), 0u);
  scheduler->report(0, {.best_s = 0, .trials = 8});
  EXPECT_EQ(scheduler->next(), 0u);
}

TEST(GradientScheduler, Deterministic) {
  const auto curves = model(30, 9);
  const auto order = [&](uint64_t seed) {
    return play(*make_gradient_scheduler(tasks_of(curves), {.seed = seed, .greed = 0.3}), curves, 80).order;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(RoundRobinScheduler, InTurn) {
  const std::vector<Curve> curves(3);
  const auto scheduler = make_round_robin_scheduler(3);
  EXPECT_EQ(play(*scheduler, curves, 7).order, (std::vector<size_t>{0, 1, 2, 0, 1, 2, 0}));
  scheduler->report(1, {.exhausted = true});
  EXPECT_TRUE(scheduler->given_up(1));
  EXPECT_EQ(scheduler->next(), 2u);
}

}  // namespace
}  // namespace fettle
