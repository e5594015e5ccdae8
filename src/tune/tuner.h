#pragma once
// Tunes one task, or all tasks of a model under one budget. Results are recorded at once.

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "codegen/kernel_source.h"
#include "cost/cost_model.h"
#include "database/database.h"
#include "measure/runner.h"
#include "target/target.h"
#include "tune/search/search_strategy.h"
#include "tune/space/space.h"
#include "tune/task_scheduler.h"

namespace fettle {

struct TuneTask {
  Func workload;
  double weight = 1;  // how often a run of the model runs it
  std::string label;
};

struct TuneProgress {
  struct Task {
    std::string label;
    double weight = 1;
    int64_t trials = 0;    // known results included
    double default_s = 0;  // of one call; 0: not measured yet
    double best_s = 0;
    double share = 0;       // of the model's time as it is now
    bool given_up = false;  // nothing more is expected of it
  };
  std::vector<Task> tasks;
  int current = -1;      // the task being worked on
  int64_t trials = 0;    // of all tasks, known results included
  int64_t measured = 0;  // in this run
  int64_t failed = 0;
  double default_s = 0;    // Σ weight · default: the model's time untuned
  double estimated_s = 0;  // Σ weight · best: as it is now; tasks not yet measured are left out
  double elapsed_s = 0;
  double left_s = -1;  // of the budget; negative: no time limit
};

/// How many candidates failed in one way, and the first of them.
struct FailureKind {
  ErrorCode error = ErrorCode::kNone;  // E401 … E406
  int signal = 0;                      // E403
  int64_t count = 0;
  std::string task, trace, message;
};
/// "12 candidates: 8 crashed (E403, Segmentation fault), 4 …"
std::string failure_histogram(const std::vector<FailureKind>& failures);

struct TuneOptions {
  uint64_t seed = 0;
  uint64_t run = 0;                                              // TuningRun::id, which records name
  double max_seconds = std::numeric_limits<double>::infinity();  // while the machine is awake, all in all
  int64_t max_trials = std::numeric_limits<int64_t>::max();      // of all tasks together; known results count
  int batch = 8;                                                 // candidates measured before the cost model learns
  int first_points = 256;                                        // predicted for the first batch of a task
  int population = 32;     // predicted for each later one, in each of two generations
  bool check_all = false;  // compare the results of every candidate, not of the best alone
  int confirm = 3;         // candidates timed again, interleaved with the default
  int confirm_rounds = 4;
  /// Of one thread, fp32, a multiply-add counts as two: bounds each task. 0: that of `micro_kernels`.
  double peak_flops = 0;
  TimingOptions timing{.max_seconds = 0.12};
  const Space* space = nullptr;  // null: rule_space()
  /// Of what a schedule's algorithm adds (schedule/reformulation.h), in units of epsilon: others are not tried, and
  /// records of others not used.
  double max_error_bound = std::numeric_limits<double>::infinity();
  /// Whose kernels are candidates, too: each is measured once, beside the default.
  KernelSources kernel_sources = {};
  const StrategyDef* strategy = nullptr;  // null: the evolutionary one, with the numbers above
  bool start_from_default =
      true;  // the default is measured first: what every other must beat, and a search may start from
  bool train_each_batch =
      false;  // the cost model is trained anew after every batch, as published, not when a quarter more is known
  bool confirm_each_best =
      false;            // what would be the best so far is timed again at once (MeasureRequest::confirm_best)
  DescribeFn describe;  // empty: nothing is predicted; of several search threads, called by all of them
  DescribeFn describe_unpredicted;  // the same where neither model nor strategy asks for a prediction; empty: all of it
  int search_threads = 1;           // that make candidates, between measurements; never changes which are made
  const MicroKernelTable* micro_kernels = nullptr;  // for the constructed default
  GradientSchedulerOptions scheduler;
  MakeScheduler make_scheduler;             // empty: make_gradient_scheduler with the numbers above
  const std::atomic<bool>* stop = nullptr;  // set: end soon; all that was measured is recorded
};

struct TaskReport {
  std::string label;
  std::string default_trace;
  std::string best_trace;  // confirmed: never slower than the default; the default where nothing is better
  DecisionMap best_decisions;
  double default_s = 0;  // 0: not measured
  double best_s = 0;
  bool confirmed = false;    // best was timed again beside the default, and its results are right
  bool given_up = false;     // ended because nothing more was expected
  bool quarantined = false;  // its candidates took workers along again and again, so it keeps its default
  int64_t trials = 0;        // results used, known ones included
  int64_t measured = 0;      // of these, measured now
  int64_t failed = 0;
  double seconds = 0;  // spent on it
  Diagnostic error;    // what ended it before its time, if anything did; what was known by then is kept
};

/// Where a run's time went. Seconds; the phases do not overlap, and what is in none of them is bookkeeping.
struct TuneProfile {
  double prepare_s = 0;  // defaults constructed, records read
  double propose_s = 0;  // candidates made, predicted and chosen
  double measure_s = 0;  // waiting for the runner, in the search
  double learn_s = 0;    // the cost model trained
  double confirm_s = 0;  // the best timed again side by side and checked
  // Of all candidates, by the runner's account; several are built at once.
  double build_s = 0, run_s = 0;
};

struct TuneReport {
  std::vector<TaskReport> tasks;  // in the order given
  int64_t trials = 0;
  int64_t measured = 0;
  int64_t points = 0;      // of the spaces that were made into programs
  double default_s = 0;    // Σ weight · default over the measured tasks
  double estimated_s = 0;  // Σ weight · best over these
  double seconds = 0;
  TuneProfile profile;
  bool stopped = false;  // by the flag
  std::vector<FailureKind> failures;
};

/// Tunes one task. E406 where nothing can be measured any more; E5xx where a record cannot be kept; E102, E709 where
/// the workload cannot be measured. Use make_memory_database() to keep nothing.
Result<TaskReport> tune_task(const Func& workload, const Target& target, int threads, Database& database,
                             Runner& runner, CostModel& model, const TuneOptions& options = {});

/// Tunes all tasks under one budget; equal workloads count as one. `progress` is called after each result and each
/// batch. A task that cannot be measured keeps its default and is passed over. Ends in time, confirmations included.
/// With a time limit, what the search leaves of it goes into looking closer at the best. E407 with a histogram of
/// failures where candidates were tried and none could be measured; E406, E5xx.
Result<TuneReport> tune_tasks(std::vector<TuneTask> tasks, const Target& target, int threads, Database& database,
                              Runner& runner, CostModel& model, const TuneOptions& options = {},
                              const std::function<void(const TuneProgress&)>& progress = {});

}  // namespace fettle
