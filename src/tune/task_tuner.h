#pragma once
// One task, tuned batch by batch: proposals are looked up in the records or measured, recorded, and learned from.

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tune/tuner.h"

namespace fettle {

/// Feeds measurements of all tasks to the cost model, which is trained anew when a quarter more is known: time spent on
/// training then grows with what there is to learn, not with its square.
class Learner {
 public:
  explicit Learner(CostModel& model) : model_(model) {}
  CostModel& model() { return model_; }
  /// Failed candidates count as infinitely slow.
  Result<> learn(std::span<const Observation> observations);

 private:
  CostModel& model_;
  std::vector<CandidateFeatures> features_;
  std::vector<double> seconds_;
  size_t trained_ = 0;
};

/// What the tasks of one run share. Used by one thread.
struct TuneSession {
  std::shared_ptr<const Target> target;
  int threads = 1;
  Database& database;
  Runner& runner;
  Learner learner;
  const TuneOptions& options;
  std::string versions;
  std::function<void()> on_result;  // may be empty
  std::chrono::steady_clock::time_point start;
  double search_until_s = 0;  // seconds after start: no candidate is begun later
  int64_t measured = 0;
  int64_t failed = 0;
  const void* current = nullptr;  // whose workload the runner has

  double elapsed_s() const;
  bool stopped() const { return options.stop && options.stop->load(std::memory_order_relaxed); }
  bool out_of_time() const { return elapsed_s() >= search_until_s; }
};

class TaskTuner {
 public:
  /// Constructs the default and reads what is known. Errors are the workload's own (no default can be made) or E5xx.
  static Result<std::unique_ptr<TaskTuner>> make(TuneSession& session, const TuneTask& task);

  /// Prepares run_batch: the search starts with this many random points, and from what other seeds found.
  Result<> begin_search(int first_points);
  /// Times the default, unless it is known. After that, default_s() is set unless it failed.
  Result<> measure_default();
  /// One batch of at most n candidates. E406, E5xx.
  Result<BatchOutcome> run_batch(size_t n);
  /// Times the best again, interleaved with the default, and checks their results, unless they are known to be
  /// confirmed; then the report is final. Without time for that, what is plainly better than the default remains, else
  /// the default.
  Result<> confirm(bool has_time);
  bool needs_confirmation() const;

  const TuneTask& task() const { return task_; }
  double predicted_s() const { return predicted_s_; }
  double bound_s() const { return bound_s_; }
  const TaskReport& report() const { return report_; }
  TaskReport& report() { return report_; }

 private:
  struct Known {
    double seconds = 0;  // when it was first measured, which is what the search goes by; infinity: failed
    bool raced_out = false;
    double confirmed_s = 0;  // when it was timed again; infinity: failed; 0: it was not
    bool checked = false;    // its results are right, or known to be wrong
    double final_s() const { return confirmed_s > 0 ? confirmed_s : seconds; }
  };
  /// Of an earlier run.
  struct Recorded {
    Known known;
    DecisionMap decisions;
    uint64_t seed = 0;
  };

  TaskTuner(TuneSession& session, const TuneTask& task) : session_(session), task_(task) {}
  Result<> read_records();
  Result<> use_runner();
  TimingOptions timing() const;
  /// Measures and records; what was not reached is left out of known_.
  Result<std::vector<MeasureResult>> measure(const std::vector<const Candidate*>& candidates, MeasureRequest request);
  Result<> record(const Candidate& candidate, const MeasureResult& result, int64_t generation);
  std::vector<const Candidate*> contenders() const;
  std::vector<const Candidate*> adopt_records(bool foreign);
  Result<bool> time_again();
  Result<bool> check(const Candidate* candidate);
  Result<std::vector<MeasureResult>> repeat(const std::vector<const Candidate*>& candidates, bool check);
  void improve(const Candidate* candidate, double seconds);
  void set_best(const Candidate* candidate, double seconds, bool confirmed);

  TuneSession& session_;
  TuneTask task_;
  TaskKey key_;
  std::unique_ptr<Workbench> bench_;
  std::unique_ptr<SearchStrategy> strategy_;
  const Candidate* default_ = nullptr;
  double predicted_s_ = 0;
  double bound_s_ = 0;
  std::unordered_map<std::string, Recorded> records_;  // by trace
  std::map<int64_t, Known> known_;                     // by candidate
  int64_t generation_ = 0;
  TaskReport report_;
};

}  // namespace fettle
