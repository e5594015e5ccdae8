#pragma once
// Ansor's task scheduler as it was published, for several networks and several objectives.
// Zheng et al., Ansor: Generating High-Performance Tensor Programs for Deep Learning, OSDI 2020, section 6, appendix A,
// table 2.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tune/task_scheduler.h"

namespace fettle {

/// One task, which several networks may share.
struct SharedTask {
  std::vector<double> weights;  // by network: how often one run of it runs this task
  double flops = 0;             // of one call; 0: unknown, then nothing is inferred from similar tasks
  int similar = -1;             // tasks of equal number reach similar rates; negative: like no other
};

/// What is to be made small, from what a run of each network takes as things stand (seconds).
using Objective = std::function<double(std::span<const double> latencies_s)>;
/// f1: the sum of all latencies.
Objective sum_of_latencies();
/// f2: what exceeds each network's requirement counts, the rest is good enough: Σ max(latency, requirement).
Objective latency_requirements(std::vector<double> required_s);
/// f3: the negative geometric mean of the speedups over reference latencies.
Objective speedup_over(std::vector<double> reference_s);

struct AnsorSchedulerOptions {
  uint64_t seed = 0;
  double epsilon = 0.05;  // share of rounds, after warm-up, that go to a task at random
  double alpha = 0.2;     // weight of what the last rounds brought, against what is hoped for
  double beta = 2;        // how far above the best rate among similar tasks a task is taken to get
  int window = 3;         // rounds over which the last gain is taken (Δt)
  Objective objective;    // empty: sum_of_latencies()
  /// f4: a task that has gained nothing over so many rounds is stopped early; 0: never.
  int early_stop = 0;
};

/// Each task once, in turn; then the task of the largest |∂f/∂t_i|, where
///   ∂f/∂t_i ≈ ∂f/∂g_i (α (g_i(t_i) - g_i(t_i - Δt)) / Δt + (1 - α) min(-g_i(t_i) / t_i, β C_i / max_k V_k - g_i(t_i)))
/// g_i: best time of task i after t_i rounds; C_i: its flops; V_k: the rates of tasks similar to it. ∂f/∂g_i by the
/// chain rule over the networks, ∂f/∂latency numerically. All tasks need at least one network.
std::unique_ptr<TaskScheduler> make_ansor_scheduler(std::vector<SharedTask> tasks,
                                                    const AnsorSchedulerOptions& options = {});

/// What is made small for one model: its latency (f1), what of it exceeds `required_s` (f2), or the inverse of its
/// speedup over the defaults (f3).
enum class TuneObjective : uint8_t { kLatency, kRequirement, kSpeedup };
struct AnsorGoal {
  TuneObjective objective = TuneObjective::kLatency;
  double required_s = 0;  // kRequirement
  int early_stop = 0;     // AnsorSchedulerOptions::early_stop
};
/// Ansor's scheduler for the tasks of one model.
MakeScheduler ansor_scheduling(const AnsorGoal& goal = {});

}  // namespace fettle
