#pragma once
// What there is to tell about one run of a tuner: the records of its tasks, read once, beside the machine's limits.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "database/database.h"
#include "driver/compile.h"
#include "report/least_time.h"
#include "report/machine_peaks.h"

namespace fettle {

/// The model's time, as far as it was known at a moment of the run.
struct LatencyPoint {
  double elapsed_s = 0;
  double estimated_s = 0;  // Σ weight · best; a task not yet measured counts with the first time it will have
  int64_t trials = 0;      // of this run, so far
  int64_t failed = 0;
};

/// Candidates of the run that failed alike.
struct ReportedFailure {
  ErrorCode error = ErrorCode::kNone;
  int signal = 0;
  int64_t count = 0;
  int64_t tasks = 0;  // in how many
  // The first of them.
  std::string task, trace, message;
};

struct ReportedTask {
  RunTask task;
  double default_s = 0;  // of one call, untuned; 0: not known
  double best_s = 0;
  int64_t trials = 0;  // in this run
  int64_t failed = 0;
  std::string trace;      // of the best; empty where nothing was measured
  std::string scheduled;  // the program that it makes; or, in a comment, why it makes none
  // The least that each call must do, and what the machine needs for that at its peak.
  double flops = 0;       // multiply-adds of contractions, two each; 0: it has none
  double bytes = 0;       // every parameter moved once
  LeastTime limit;        // nothing where the machine's peaks are not known
  double in_model_s = 0;  // one call inside the model, the mean over its calls; 0: not timed
};

/// A call of a kernel inside the model.
struct ReportedCall {
  GraphCall call;
  double seconds = 0;  // all its calls in one run of the model
};

struct RunReport {
  TuningRun run;
  std::vector<ReportedTask> tasks;  // the one with the largest share of the model's time first
  std::vector<LatencyPoint> points;
  std::vector<ReportedFailure> failures;  // the most frequent first
  std::vector<ReportedCall> calls;        // of the whole model, in order; none: it was not timed
  int64_t trials = 0;
  int64_t failed = 0;
  double default_s = 0;    // Σ weight · default
  double estimated_s = 0;  // Σ weight · best
};

/// The run to report: number `which` of the database's, 1 for the oldest; 0: the newest, of this model where `model` is
/// not empty. A database without runs, of an older Fettle, counts as having one: all records of the machine with the
/// most of them. E709 there is no such run · E502, E503.
Result<TuningRun> choose_run(Database& database, int which, const std::string& model = {});

/// What the records say: times and counts. Errors: E502, E503.
Result<RunReport> read_run(Database& database, const TuningRun& run);

/// read_run, and what each task is. target: of this machine, on which the best traces are replayed to show what they
/// make. peaks: of the run's machine, or null. Errors: E502, E503.
Result<RunReport> report_run(Database& database, const TuningRun& run, const Target& target, const MachinePeaks* peaks);

/// The peaks of the run's machine: as the database has them, else measured if this is that machine (and then kept,
/// where the database can be written); nothing where it is another. Errors: those of measure_peaks.
Result<std::optional<MachinePeaks>> peaks_for(Database& database, const TuningRun& run, const Target& target);

/// Puts in the times of kernels inside the model. Tasks are found by their workload. Errors: those of Model::run.
Result<> add_model_times(RunReport& report, const CompiledModel& compiled);

}  // namespace fettle
