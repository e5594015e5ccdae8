#include "tune/task_scheduler.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/random.h"

namespace fettle {
namespace {

struct State {
  double best_s = 0;
  std::vector<double> history;  // best after each batch, the default's time first
  int64_t trials = 0;
  int stale = 0;  // batches in a row without progress
  bool negligible = false;
  bool given_up = false;
};

class GradientScheduler : public TaskScheduler {
 public:
  GradientScheduler(std::vector<ScheduledTask> tasks, const GradientSchedulerOptions& options)
      : tasks_(std::move(tasks)), options_(options), states_(tasks_.size()) {
    double total_s = 0;
    for (const ScheduledTask& task : tasks_) total_s += task.weight * task.default_s;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      State& state = states_[i];
      state.best_s = tasks_[i].default_s;
      state.history = {state.best_s};
      state.negligible = tasks_[i].weight * tasks_[i].default_s < options_.negligible * total_s;
      state.given_up = at_bound(i);
    }
  }
  std::string name() const override { return "gradient"; }

  std::optional<size_t> next() override {
    std::vector<size_t> live = live_tasks(false);
    if (live.empty()) live = live_tasks(true);
    if (live.empty()) return std::nullopt;
    RandomStream stream{options_.seed, static_cast<uint64_t>(batches_)};
    if (stream.uniform() < options_.greed) return live[stream.below(live.size())];
    return *std::max_element(live.begin(), live.end(), [&](size_t a, size_t b) { return gain(a) < gain(b); });
  }

  void report(size_t task, const BatchOutcome& outcome) override {
    ++batches_;
    State& state = states_[task];
    const double before = state.best_s;
    if (outcome.best_s > 0) state.best_s = before > 0 ? std::min(before, outcome.best_s) : outcome.best_s;
    state.history.push_back(state.best_s);
    state.trials += outcome.trials;
    state.stale = state.best_s < before * (1 - options_.progress) ? 0 : state.stale + 1;
    state.given_up =
        outcome.exhausted || state.stale >= options_.patience || state.trials >= options_.max_trials || at_bound(task);
  }

  bool given_up(size_t task) const override { return states_[task].given_up; }

 private:
  std::vector<size_t> live_tasks(bool negligible) const {
    std::vector<size_t> live;
    for (size_t i = 0; i < tasks_.size(); ++i)
      if (!states_[i].given_up && states_[i].negligible == negligible) live.push_back(i);
    return live;
  }

  bool at_bound(size_t i) const { return states_[i].best_s <= options_.at_bound * tasks_[i].bound_s; }

  // Seconds of the model's time that the next batch is expected to save.
  double gain(size_t i) const {
    const ScheduledTask& task = tasks_[i];
    const State& state = states_[i];
    const size_t n = state.history.size() - 1;
    const double room = std::max(0.0, state.best_s - task.bound_s);
    // Hoped for: the usual first gain, less with each batch and much less with each in vain.
    const double hope =
        std::min(room, options_.first_gain * state.best_s) / static_cast<double>(1 + n) * std::pow(0.5, state.stale);
    if (n == 0) return task.weight * hope;
    const size_t window = std::min(n, static_cast<size_t>(options_.window));
    const double last = (state.history[n - window] - state.best_s) / static_cast<double>(window);
    return task.weight * (options_.backward * std::min(last, room) + (1 - options_.backward) * hope);
  }

  std::vector<ScheduledTask> tasks_;
  GradientSchedulerOptions options_;
  std::vector<State> states_;
  int64_t batches_ = 0;
};

class RoundRobinScheduler : public TaskScheduler {
 public:
  explicit RoundRobinScheduler(size_t n_tasks) {
    for (size_t i = 0; i < n_tasks; ++i) queue_.push_back(i);
  }
  std::string name() const override { return "round_robin"; }
  std::optional<size_t> next() override {
    if (queue_.empty()) return std::nullopt;
    return queue_.front();
  }
  void report(size_t task, const BatchOutcome& outcome) override {
    std::erase(queue_, task);
    if (!outcome.exhausted) queue_.push_back(task);
  }
  bool given_up(size_t task) const override { return std::find(queue_.begin(), queue_.end(), task) == queue_.end(); }

 private:
  std::deque<size_t> queue_;
};

}  // namespace

std::unique_ptr<TaskScheduler> make_gradient_scheduler(std::vector<ScheduledTask> tasks,
                                                       const GradientSchedulerOptions& options) {
  return std::make_unique<GradientScheduler>(std::move(tasks), options);
}

std::unique_ptr<TaskScheduler> make_round_robin_scheduler(size_t n_tasks) {
  return std::make_unique<RoundRobinScheduler>(n_tasks);
}

}  // namespace fettle
