#pragma once
// One run of a tuner over a model: what its tasks were, when, and what came of it. Records name their run.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "database/workload.h"

namespace fettle {

/// A kernel of the model that a task makes, and the model's nodes that it does the work of.
struct RunCall {
  std::string name;     // "conv1: Conv_Relu"
  std::string origins;  // one a line: "Conv conv1\nRelu relu1"
  friend bool operator==(const RunCall&, const RunCall&) = default;
};

struct RunTask {
  Workload workload;
  std::string label;
  double weight = 1;  // how often a run of the model runs it
  std::vector<RunCall> calls;
};

struct TuningRun {
  uint64_t id = 0;    // drawn anew for each; 0: none
  std::string model;  // its name
  std::string target_features;
  Digest fingerprint;
  int threads = 1;
  std::string versions;
  std::string machine;     // Target in one line
  int64_t created_ns = 0;  // since 1970
  uint64_t seed = 0;
  std::vector<RunTask> tasks;  // distinct workloads
  // Known when it has ended.
  double seconds = 0;     // that it took; 0: it has not ended, or was killed
  double untuned_ms = 0;  // one run of the model; 0: not timed
  double tuned_ms = 0;
  bool kept_untuned = false;  // the defaults are better for the model as a whole
  bool stopped = false;       // before its time, by who started it

  /// Of its task, as records have it.
  TaskKey task_key(const RunTask& task) const {
    return {task.workload, target_features, fingerprint, threads, versions};
  }
};

/// An id that no other run has.
uint64_t draw_run_id();

/// One JSON object without line breaks: {"format": 1, "run": {…}}.
std::string to_json_line(const TuningRun& run);
/// Whether a line of an exported file is of a run rather than of a record.
bool is_run_line(std::string_view line);
/// E506.
Result<TuningRun> run_from_json(std::string_view line);

std::string calls_to_json(const std::vector<RunCall>& calls);
/// E506.
Result<std::vector<RunCall>> calls_from_json(std::string_view json);

}  // namespace fettle
