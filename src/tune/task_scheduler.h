#pragma once
// Seam: which of many tasks gets the next batch of trials.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fettle {

/// What a scheduler knows of a task from the start.
struct ScheduledTask {
  double weight = 1;     // how often a run of the model runs it
  double default_s = 0;  // of one call, untuned
  double bound_s = 0;    // no program is faster; 0: unknown
  double flops = 0;      // of one call; 0: unknown
  int similar = -1;      // tasks of equal number are alike and reach similar rates; negative: like no other
};

/// What came of one batch.
struct BatchOutcome {
  double best_s = 0;       // best so far
  int64_t trials = 0;      // in this batch
  bool exhausted = false;  // its search knows no more
};

/// Decides by logical time alone: the same tasks and outcomes give the same choices.
class TaskScheduler {
 public:
  virtual ~TaskScheduler() = default;
  virtual std::string name() const = 0;
  /// The task that gets the next batch. Nothing: no task is worth one.
  virtual std::optional<size_t> next() = 0;
  virtual void report(size_t task, const BatchOutcome& outcome) = 0;
  /// Whether nothing more is expected of it: next() will not return it any more.
  virtual bool given_up(size_t task) const = 0;
};

/// Makes the scheduler of a run once its tasks are known.
using MakeScheduler = std::function<std::unique_ptr<TaskScheduler>(std::vector<ScheduledTask> tasks, uint64_t seed)>;

struct GradientSchedulerOptions {
  uint64_t seed = 0;
  double greed = 0.05;        // share of batches that go to a task at random (ε)
  double first_gain = 0.2;    // relative: what the first batch of a task is expected to bring
  double backward = 0.5;      // weight of the gain of the last batches, against that of the hoped for one
  int window = 3;             // batches over which the last gain is taken
  int patience = 6;           // batches in a row without progress, after which a task is given up
  double progress = 0.005;    // relative: less is none
  double at_bound = 1.01;     // times the bound: the task is given up
  double negligible = 0.002;  // share of the model's time: such a task waits until all others are given up
  int64_t max_trials = 400;   // of one task
};
/// Gradient descent on the model's time Σ weight · best (after Zheng et al., Ansor, OSDI 2020, section 6): each batch
/// goes where the expected gain is largest. An untouched task promises its share of the model's time, so that the
/// heaviest are visited first; one without progress promises half as much with each batch.
std::unique_ptr<TaskScheduler> make_gradient_scheduler(std::vector<ScheduledTask> tasks,
                                                       const GradientSchedulerOptions& options = {});
/// One batch each in turn, the baseline that every scheduler must beat.
std::unique_ptr<TaskScheduler> make_round_robin_scheduler(size_t n_tasks);

}  // namespace fettle
