#pragma once
// Tunes one task, batch by batch. Proposals are looked up in the records or measured, recorded, and learned from.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tune/tuner.h"

namespace fettle {

/// Feeds measurements of all tasks to the cost model, which is trained anew when a quarter more is known. So the time
/// spent on training grows with the number of measurements, not with its square.
class Learner {
 public:
  explicit Learner(CostModel& model, bool each_batch = false) : model_(model), each_batch_(each_batch) {}
  CostModel& model() { return model_; }
  /// Failed candidates count as infinitely slow.
  Result<> learn(std::span<const Observation> observations);

 private:
  CostModel& model_;
  bool each_batch_;  // as published
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
  double search_until_s = 0;  // seconds after start: no candidate of a search is begun later
  int64_t measured = 0;
  int64_t failed = 0;
  std::vector<FailureKind> failures;  // of all results used
  const void* current = nullptr;      // whose workload the runner has
  TuneProfile profile;

  double elapsed_s() const;
  bool stopped() const { return options.stop && options.stop->load(std::memory_order_relaxed); }
  bool out_of_time() const { return elapsed_s() >= search_until_s; }
  /// Seconds until then; not negative.
  double left_s(double until_s) const { return std::max(0.0, until_s - elapsed_s()); }
};

/// Adds what passes while it lives to a phase of the profile.
class PhaseTimer {
 public:
  PhaseTimer(const TuneSession& session, double& phase)
      : session_(session), phase_(phase), start_s_(session.elapsed_s()) {}
  ~PhaseTimer() { phase_ += session_.elapsed_s() - start_s_; }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  const TuneSession& session_;
  double& phase_;
  double start_s_;
};

/// What a search goes by (timing.h); infinity for what failed.
double usual_seconds(const MeasureResult& result);
double usual_seconds(const Record& record);
/// What seems to take less than this share of the default's time is timed again beside it: a single measurement may be
/// off by a hundredth or two.
inline constexpr double kMaybeFaster = 1.02;
/// Of the candidate itself, not of the harness or of the clock.
inline bool is_outcome(ErrorCode error) { return error != ErrorCode::E406 && error != ErrorCode::E407; }

class TaskTuner {
 public:
  /// Constructs the default and reads what is known. Errors are the workload's own (no default can be made) or E5xx.
  static Result<std::unique_ptr<TaskTuner>> make(TuneSession& session, const TuneTask& task);

  /// Prepares run_batch: the search starts with this many random points, and from what other seeds found.
  Result<> begin_search(int first_points);
  /// Times the default, unless it is known, and what other sources offer. After that, default_s() is set unless it
  /// failed.
  Result<> measure_default();
  /// One batch of at most n candidates. E406, E5xx.
  Result<BatchOutcome> run_batch(size_t n);
  /// One step of looking closer: the best few are timed again, side by side, and the search goes on from what that
  /// says. E406, E5xx.
  Result<> refine();
  /// Checks the results of the best, and times it again, interleaved with the default, unless that is known; then the
  /// report is final. What time does not suffice for is left out: then what is right and plainly better than the
  /// default remains, else the default. `until_s`: seconds after the session's start. After an error the report holds,
  /// too, for what was known by then.
  Result<> confirm(double until_s);
  bool needs_confirmation() const;
  /// What confirm() will take, by what similar runs took.
  double confirmation_s() const;

  const TuneTask& task() const { return task_; }
  double predicted_s() const { return predicted_s_; }
  double bound_s() const { return bound_s_; }
  int64_t points() const { return bench_->points(); }
  const TaskReport& report() const { return report_; }
  TaskReport& report() { return report_; }

 private:
  struct Known {
    double seconds = 0;  // when it was first measured, which is what the search goes by; infinity: failed
    bool raced_out = false;
    double confirmed_s = 0;  // when it was timed again; infinity: failed; 0: it was not
    bool checked = false;    // its results are right, or known to be wrong
    size_t n_confirmed = 0;  // how often it was timed again
    double final_s() const { return confirmed_s > 0 ? confirmed_s : seconds; }
  };
  /// Of an earlier run.
  struct Recorded {
    double seconds = 0;
    bool raced_out = false;
    std::vector<double> confirmed_s;  // oldest first
    bool checked = false, wrong = false;
    ErrorCode error = ErrorCode::kNone;
    int signal = 0;
    std::string message;
    bool lost_worker = false;
    DecisionMap decisions;
    uint64_t seed = 0;

    /// As the search meets it; and all that is known.
    Known first() const { return {seconds, raced_out}; }
    Known all() const;
  };

  TaskTuner(TuneSession& session, const TuneTask& task) : session_(session), task_(task) {}
  Result<> read_records();
  Result<> use_runner();
  Result<> measure_offered();
  TimingOptions timing() const;
  void beside_anchor(MeasureRequest& request) const;
  /// Measures and records; what was not reached is left out of known_.
  Result<> measure(std::vector<const Candidate*> candidates, MeasureRequest request);
  Result<> keep(const Candidate* candidate, const MeasureResult& result);
  Result<> record(const Candidate& candidate, const MeasureResult& result, int64_t generation);
  std::vector<const Candidate*> contenders(double share) const;
  bool needs_check(const Candidate* candidate) const;
  std::vector<const Candidate*> adopt_records(bool foreign, double until_s);
  std::vector<const Candidate*> confirmation_list(size_t n) const;
  Result<bool> time_again(const std::vector<const Candidate*>& list, int rounds, int series, double until_s);
  bool replay_times(const std::vector<const Candidate*>& list);
  Result<> check_and_time(double until_s);
  Result<bool> check(const Candidate* candidate, double until_s);
  Result<> check_leader();
  Result<> check_default(double until_s);
  Result<std::vector<MeasureResult>> repeat(const std::vector<const Candidate*>& candidates, bool check,
                                            double until_s);
  static size_t typical(const std::vector<MeasureResult>& rounds);
  double run_cost_s() const;
  void choose_best();
  /// Counts it, by its kind.
  void note_failure(const Candidate& candidate, ErrorCode error, int signal, const std::string& message);
  bool quarantined() const;
  void improve(const Candidate* candidate, double seconds);
  void set_best(const Candidate* candidate, double seconds, bool confirmed);

  TuneSession& session_;
  TuneTask task_;
  TaskKey key_;
  std::unique_ptr<Space> space_;  // null: that of the options
  std::unique_ptr<Workbench> bench_;
  std::unique_ptr<SearchStrategy> strategy_;
  const Candidate* default_ = nullptr;
  std::vector<const Candidate*> offered_;  // kernels of others (TuneOptions::kernel_sources)
  /// The default among those that compute as written: what results are held to where the plain program takes too long.
  std::string reference_trace_;
  const Candidate* best_ = nullptr;  // so far
  /// The reference that all others are timed beside, and the time that it took at first. With it, times can be compared
  /// whatever else the machine does meanwhile. It is the default or, where that is not measured, the best of the first
  /// batch.
  const Candidate* anchor_ = nullptr;
  double anchor_s_ = 0;
  std::vector<double> paces_;  // of the machine, whenever it ran
  double predicted_s_ = 0;
  double bound_s_ = 0;
  std::unordered_map<std::string, Recorded> records_;  // by trace
  std::map<int64_t, Known> known_;                     // by candidate
  int64_t generation_ = 0;
  int64_t lost_workers_ = 0;  // results that cost a worker, here and in earlier runs
  double setup_s_ = 0;        // giving its workload to the runner, and the first run
  double run_s_ = 0;          // wall clock of a usual run
  double check_s_ = 0;        // of a check, and of the reference that the first one makes; 0: none was made
  TaskReport report_;
};

}  // namespace fettle
