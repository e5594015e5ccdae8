#include "generations/ansor/ansor_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/random.h"

namespace fettle {
namespace {

class AnsorScheduler : public TaskScheduler {
 public:
  AnsorScheduler(std::vector<SharedTask> tasks, const AnsorSchedulerOptions& options)
      : tasks_(std::move(tasks)), options_(options), states_(tasks_.size()) {
    if (!options_.objective) options_.objective = sum_of_latencies();
    for (const SharedTask& task : tasks_) {
      FETTLE_CHECK(!task.weights.empty());
      n_networks_ = std::max(n_networks_, task.weights.size());
    }
  }
  std::string name() const override { return "ansor"; }

  std::optional<size_t> next() override {
    std::vector<size_t> live;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (given_up(i)) continue;
      if (states_[i].history.empty()) return i;  // warm-up: each once
      live.push_back(i);
    }
    if (live.empty()) return std::nullopt;
    RandomStream stream{options_.seed, static_cast<uint64_t>(rounds_)};
    if (stream.uniform() < options_.epsilon) return live[stream.below(live.size())];
    const std::vector<double> slopes = objective_slopes();
    return *std::max_element(live.begin(), live.end(), [&](size_t a, size_t b) {
      return std::abs(gradient(a, slopes)) < std::abs(gradient(b, slopes));
    });
  }

  void report(size_t task, const BatchOutcome& outcome) override {
    ++rounds_;
    State& state = states_[task];
    double best = state.history.empty() ? std::numeric_limits<double>::infinity() : state.history.back();
    if (outcome.best_s > 0) best = std::min(best, outcome.best_s);
    state.history.push_back(best);
    state.exhausted = state.exhausted || outcome.exhausted;
  }

  bool given_up(size_t task) const override {
    const State& state = states_[task];
    if (state.exhausted) return true;
    const auto rounds = static_cast<size_t>(std::max(0, options_.early_stop));
    return rounds > 0 && state.history.size() > rounds &&
           state.history.back() >= state.history[state.history.size() - 1 - rounds];
  }

 private:
  struct State {
    std::vector<double> history;  // best after each round
    bool exhausted = false;
  };

  double best(size_t i) const { return states_[i].history.empty() ? 0 : states_[i].history.back(); }
  double weight(size_t i, size_t network) const {
    return network < tasks_[i].weights.size() ? tasks_[i].weights[network] : 0;
  }

  // ∂f/∂latency of each network, by central differences.
  std::vector<double> objective_slopes() const {
    std::vector<double> latency(n_networks_, 0);
    for (size_t i = 0; i < tasks_.size(); ++i)
      if (std::isfinite(best(i)))
        for (size_t j = 0; j < n_networks_; ++j) latency[j] += weight(i, j) * best(i);
    std::vector<double> slopes(n_networks_);
    for (size_t j = 0; j < n_networks_; ++j) {
      const double step = 1e-4 * latency[j];
      if (step <= 0) continue;
      std::vector<double> moved = latency;
      moved[j] = latency[j] + step;
      const double above = options_.objective(moved);
      moved[j] = latency[j] - step;
      slopes[j] = (above - options_.objective(moved)) / (2 * step);
    }
    return slopes;
  }

  // ∂f/∂t_i; not positive.
  double gradient(size_t i, const std::vector<double>& slopes) const {
    const State& state = states_[i];
    const double g = best(i);
    // Nothing of it works so far: the most urgent of all.
    if (!std::isfinite(g)) return -std::numeric_limits<double>::max() / static_cast<double>(state.history.size());
    double slope = 0;  // ∂f/∂g_i
    for (size_t j = 0; j < n_networks_; ++j) slope += slopes[j] * weight(i, j);
    const size_t rounds = state.history.size();
    double backward = 0;
    if (const size_t window = std::min(rounds - 1, static_cast<size_t>(options_.window));
        window > 0 && std::isfinite(state.history[rounds - 1 - window]))
      backward = (g - state.history[rounds - 1 - window]) / static_cast<double>(window);
    double forward = -g / static_cast<double>(rounds);  // optimistic: more rounds may bring it to nothing
    if (const double rate = best_similar_rate(i); rate > 0)
      forward = std::max(forward, std::min(0.0, options_.beta * tasks_[i].flops / rate - g));
    return slope * (options_.alpha * backward + (1 - options_.alpha) * forward);
  }

  // The highest flop/s among tasks similar to i; 0: none is known.
  double best_similar_rate(size_t i) const {
    if (tasks_[i].similar < 0 || tasks_[i].flops <= 0) return 0;
    double rate = 0;
    for (size_t k = 0; k < tasks_.size(); ++k)
      if (k != i && tasks_[k].similar == tasks_[i].similar && best(k) > 0 && std::isfinite(best(k)))
        rate = std::max(rate, tasks_[k].flops / best(k));
    return rate;
  }

  std::vector<SharedTask> tasks_;
  AnsorSchedulerOptions options_;
  std::vector<State> states_;
  size_t n_networks_ = 0;
  int64_t rounds_ = 0;
};

}  // namespace

Objective sum_of_latencies() {
  return [](std::span<const double> latencies) {
    double sum = 0;
    for (const double latency : latencies) sum += latency;
    return sum;
  };
}

Objective latency_requirements(std::vector<double> required_s) {
  return [required = std::move(required_s)](std::span<const double> latencies) {
    double sum = 0;
    for (size_t j = 0; j < latencies.size(); ++j) sum += std::max(latencies[j], j < required.size() ? required[j] : 0);
    return sum;
  };
}

Objective speedup_over(std::vector<double> reference_s) {
  return [reference = std::move(reference_s)](std::span<const double> latencies) {
    double log_sum = 0;
    for (size_t j = 0; j < latencies.size(); ++j)
      log_sum += std::log((j < reference.size() ? reference[j] : 1) / std::max(latencies[j], 1e-12));
    return -std::exp(log_sum / static_cast<double>(std::max<size_t>(1, latencies.size())));
  };
}

std::unique_ptr<TaskScheduler> make_ansor_scheduler(std::vector<SharedTask> tasks,
                                                    const AnsorSchedulerOptions& options) {
  return std::make_unique<AnsorScheduler>(std::move(tasks), options);
}

MakeScheduler ansor_scheduling(const AnsorGoal& goal) {
  return [goal](std::vector<ScheduledTask> scheduled, uint64_t seed) {
    AnsorSchedulerOptions options{.seed = seed, .early_stop = goal.early_stop};
    std::vector<SharedTask> tasks;
    double default_s = 0;
    for (const ScheduledTask& task : scheduled) {
      tasks.push_back({.weights = {task.weight}, .flops = task.flops, .similar = task.similar});
      default_s += task.weight * task.default_s;
    }
    if (goal.objective == TuneObjective::kRequirement) options.objective = latency_requirements({goal.required_s});
    if (goal.objective == TuneObjective::kSpeedup) options.objective = speedup_over({default_s});
    return make_ansor_scheduler(std::move(tasks), options);
  };
}

}  // namespace fettle
