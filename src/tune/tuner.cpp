#include "tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/build.h"
#include "ir/compare.h"
#include "measure/child.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/bound.h"
#include "tune/task_tuner.h"

namespace fettle {
namespace {

/// A task with this share of the model's time (inverse) or more gets all of the first points.
constexpr double kFullShare = 10;
/// Of the budget, at most, for confirmations: one too short for all of them still leaves something for the search.
constexpr double kConfirmationShare = 0.4;
/// So much before its end nothing is begun, since what is under way must end in time; at most this share of it.
constexpr double kEndSeconds = 0.2, kEndShare = 0.02;
/// Once the scheduler has given up: batches of a task between two times of looking closer at its best, and how often
/// that may be in vain.
constexpr int kBatchesBetween = 3, kCloserLooks = 12;

// Errors that concern all tasks: nothing can be recorded any more, or the machines that measure cannot be had.
bool concerns_all(ErrorCode code) {
  if (code == ErrorCode::E801 || code == ErrorCode::E802 || code == ErrorCode::E804 || code == ErrorCode::E805)
    return true;
  return code == ErrorCode::E501 || code == ErrorCode::E502 || code == ErrorCode::E503 || code == ErrorCode::E504 ||
         code == ErrorCode::E505;
}

class Run {
 public:
  Run(std::vector<TuneTask> tasks, TuneSession& session, const std::function<void(const TuneProgress&)>& progress)
      : tasks_(std::move(tasks)), session_(session), options_(session.options), progress_(progress) {
    session_.on_result = [this] { show(); };
    merge_equal_tasks();
  }

  Result<TuneReport> run() {
    FETTLE_TRY_VOID(make_tuners());
    FETTLE_TRY_VOID(measure_defaults());
    FETTLE_TRY_VOID(search());
    FETTLE_TRY_VOID(look_closer());
    FETTLE_TRY_VOID(confirm());
    if (n_failed_ == entries_.size() && first_error_.code != ErrorCode::kNone) return fail(first_error_);
    current_ = -1;
    show();
    if (nothing_measured()) return fail(ErrorCode::E407, failure_histogram(session_.failures));
    return report();
  }

 private:
  /// Distinct workloads, each with the sum of its tasks' weights.
  struct Entry {
    TuneTask task;
    std::unique_ptr<TaskTuner> tuner;  // null: it cannot be tuned
    bool given_up = false;
    Diagnostic error;  // the first that ended something of it
    // of looking closer at it
    int steps = 0, in_vain = 0;
    bool done = false;
  };

  void merge_equal_tasks() {
    std::vector<Digest> hashes;
    for (const TuneTask& task : tasks_) {
      const Digest hash = canonical_hash(task.workload);
      size_t e = 0;
      while (e < entries_.size() && !(hashes[e] == hash && structural_equal(entries_[e].task.workload, task.workload)))
        ++e;
      if (e == entries_.size()) {
        entries_.push_back({task, nullptr});
        hashes.push_back(hash);
      } else {
        entries_[e].task.weight += task.weight;
      }
      entry_of_.push_back(e);
    }
  }

  // A task that fails for itself is passed over. What is known of it by then holds.
  Result<> passed_over(size_t e, Diagnostic error) {
    if (concerns_all(error.code)) return fail(std::move(error));
    if (first_error_.code == ErrorCode::kNone) first_error_ = error;
    Entry& entry = entries_[e];
    entry.given_up = entry.done = true;
    if (entry.error.code == ErrorCode::kNone) entry.error = std::move(error);
    if (entry.tuner && entry.tuner->report().best_s > 0) return {};
    ++n_failed_;
    entry.tuner.reset();
    return {};
  }

  Result<> make_tuners() {
    const PhaseTimer timer(session_, session_.profile.prepare_s);
    for (size_t e = 0; e < entries_.size() && !session_.stopped() && !session_.out_of_time(); ++e) {
      auto tuner = TaskTuner::make(session_, entries_[e].task);
      if (tuner)
        entries_[e].tuner = std::move(*tuner);
      else
        FETTLE_TRY_VOID(passed_over(e, std::move(tuner.error())));
    }
    return {};
  }

  bool over() const { return session_.stopped() || session_.out_of_time() || trials() >= options_.max_trials; }

  // The heaviest first, should the budget end before all are measured.
  Result<> measure_defaults() {
    std::vector<size_t> order(entries_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [&](size_t e) { return !entries_[e].tuner; });
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return entries_[a].task.weight * entries_[a].tuner->predicted_s() >
             entries_[b].task.weight * entries_[b].tuner->predicted_s();
    });
    for (const size_t e : order) {
      if (over()) break;
      current_ = static_cast<int>(e);
      auto measured = entries_[e].tuner->measure_default();
      if (!measured) FETTLE_TRY_VOID(passed_over(e, std::move(measured.error())));
      show();
    }
    return {};
  }

  Result<> search() {
    std::vector<size_t> tuned;
    std::vector<ScheduledTask> scheduled;
    std::vector<std::string> kinds;
    for (size_t e = 0; e < entries_.size(); ++e) {
      if (!entries_[e].tuner) continue;
      const TaskTuner& tuner = *entries_[e].tuner;
      const double default_s = tuner.report().default_s > 0 ? tuner.report().default_s : tuner.predicted_s();
      const Func& workload = entries_[e].task.workload;
      const std::string kind = kind_of(workload);
      const auto known = std::ranges::find(kinds, kind);
      tuned.push_back(e);
      scheduled.push_back({.weight = entries_[e].task.weight,
                           .default_s = default_s,
                           .bound_s = tuner.bound_s(),
                           .flops = needed_flops(workload),
                           .similar = static_cast<int>(known - kinds.begin())});
      if (known == kinds.end()) kinds.push_back(kind);
    }
    FETTLE_TRY_VOID(begin_searches(tuned, scheduled));
    const auto scheduler = make_scheduler(std::move(scheduled));
    while (!over()) {
      const auto next = scheduler->next();
      for (size_t i = 0; i < tuned.size(); ++i) entries_[tuned[i]].given_up = scheduler->given_up(i);
      if (!next) break;
      const size_t e = tuned[*next];
      current_ = static_cast<int>(e);
      session_.search_until_s = options_.max_seconds - reserved_s(e);
      if (over()) break;
      auto outcome = entries_[e].tuner->run_batch(batch_size());
      if (!outcome) {
        FETTLE_TRY_VOID(passed_over(e, std::move(outcome.error())));
        scheduler->report(*next, {.exhausted = true});
        continue;
      }
      scheduler->report(*next, *outcome);
      show();
    }
    return {};
  }

  std::unique_ptr<TaskScheduler> make_scheduler(std::vector<ScheduledTask> scheduled) const {
    const uint64_t seed = hash_combine(options_.seed, options_.scheduler.seed);
    if (options_.make_scheduler) return options_.make_scheduler(std::move(scheduled), seed);
    GradientSchedulerOptions options = options_.scheduler;
    options.seed = seed;
    return make_gradient_scheduler(std::move(scheduled), options);
  }

  // Tasks are similar whose blocks are: as many loops of each kind, and as much that is read.
  static std::string kind_of(const Func& workload) {
    std::string kind;
    for (const BlockNode* block : blocks_of(workload.root())) {
      const auto reduces = std::ranges::count(block->iters, IterKind::kReduce, &IterVar::kind);
      kind += fmt::format("{} loops, {} of a reduction, {} reads; ", block->iters.size(), reduces, block->reads.size());
    }
    return kind;
  }

  // Points are predicted where the model's time is spent.
  Result<> begin_searches(const std::vector<size_t>& tuned, const std::vector<ScheduledTask>& tasks) {
    const PhaseTimer timer(session_, session_.profile.prepare_s);
    double total_s = 0;
    for (const ScheduledTask& task : tasks) total_s += task.weight * task.default_s;
    for (size_t i = 0; i < tuned.size(); ++i) {
      const double share = total_s > 0 ? tasks[i].weight * tasks[i].default_s / total_s : 1;
      const double points = options_.first_points * std::clamp(kFullShare * share, 0.2, 1.0);
      FETTLE_TRY_VOID(entries_[tuned[i]].tuner->begin_search(static_cast<int>(points)));
    }
    return {};
  }

  size_t batch_size() const {
    return static_cast<size_t>(std::min<int64_t>(options_.batch, options_.max_trials - trials()));
  }

  // What is left of the time: the best of each task are timed again, side by side, and the search goes on around those
  // that are. Where most of the model's time is, and least was done, comes first.
  Result<> look_closer() {
    if (!std::isfinite(options_.max_seconds)) return {};
    const auto worth = [&](const Entry& entry) {
      return entry.task.weight * entry.tuner->report().best_s / (1 + entry.steps / (1 + kBatchesBetween));
    };
    while (!over()) {
      size_t e = entries_.size();
      for (size_t i = 0; i < entries_.size(); ++i) {
        const Entry& entry = entries_[i];
        if (!entry.tuner || entry.done || entry.tuner->report().best_s <= 0) continue;
        if (e == entries_.size() || worth(entry) > worth(entries_[e])) e = i;
      }
      if (e == entries_.size()) break;
      session_.search_until_s = options_.max_seconds - reserved_s(e);
      if (over()) break;
      current_ = static_cast<int>(e);
      auto stepped = closer_step(entries_[e]);
      if (!stepped) FETTLE_TRY_VOID(passed_over(e, std::move(stepped.error())));
      show();
    }
    return {};
  }

  Result<> closer_step(Entry& entry) {
    TaskTuner& tuner = *entry.tuner;
    const double before_s = tuner.report().best_s;
    if (before_s <= options_.scheduler.at_bound * tuner.bound_s()) {
      entry.done = true;
      return {};
    }
    if (entry.steps++ % (1 + kBatchesBetween) == 0) {
      if (entry.in_vain++ >= kCloserLooks) entry.done = true;
      const PhaseTimer timer(session_, session_.profile.confirm_s);
      return tuner.refine();
    }
    FETTLE_TRY(const BatchOutcome outcome, tuner.run_batch(batch_size()));
    if (outcome.best_s < before_s * (1 - options_.scheduler.progress)) entry.in_vain = 0;
    if (outcome.exhausted) entry.done = true;
    return {};
  }

  // Those that matter most first; each leaves to the others what they need.
  Result<> confirm() {
    const PhaseTimer timer(session_, session_.profile.confirm_s);
    std::vector<size_t> order;
    for (size_t e = 0; e < entries_.size(); ++e)
      if (entries_[e].tuner) order.push_back(e);
    const auto saved = [&](size_t e) {
      const TaskReport& report = entries_[e].tuner->report();
      return entries_[e].task.weight * (report.default_s - report.best_s);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return saved(a) > saved(b); });
    double needed_s = 0;
    for (const size_t e : order) needed_s += entries_[e].tuner->confirmation_s();
    for (const size_t e : order) {
      current_ = static_cast<int>(e);
      const double own_s = entries_[e].tuner->confirmation_s(), now_s = session_.elapsed_s();
      const double end_s = options_.max_seconds - std::min(kEndSeconds, kEndShare * options_.max_seconds);
      const double left_s = std::max(0.0, end_s - now_s);
      const double until_s = needed_s <= left_s ? end_s - (needed_s - own_s) : now_s + left_s * own_s / needed_s;
      needed_s = std::max(1e-3, needed_s - own_s);
      auto confirmed = entries_[e].tuner->confirm(until_s);
      if (!confirmed) FETTLE_TRY_VOID(passed_over(e, std::move(confirmed.error())));
      show();
    }
    return {};
  }

  /// What confirming the tasks tuned so far, and `next`, will take.
  double reserved_s(size_t next) const {
    double total_s = 0;
    for (size_t e = 0; e < entries_.size(); ++e)
      if (entries_[e].tuner && (e == next || entries_[e].tuner->needs_confirmation()))
        total_s += entries_[e].tuner->confirmation_s();
    return std::min(total_s, kConfirmationShare * options_.max_seconds);
  }

  bool nothing_measured() const {
    if (session_.failures.empty()) return false;
    return std::none_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
      return entry.tuner && (entry.tuner->report().best_s > 0 || entry.tuner->report().default_s > 0);
    });
  }

  int64_t trials() const {
    int64_t sum = 0;
    for (const Entry& entry : entries_)
      if (entry.tuner) sum += entry.tuner->report().trials;
    return sum;
  }

  void show() const {
    if (!progress_) return;
    TuneProgress p;
    for (const Entry& entry : entries_) {
      TuneProgress::Task& task = p.tasks.emplace_back();
      task.label = entry.task.label;
      task.weight = entry.task.weight;
      task.given_up = entry.given_up;
      if (!entry.tuner) continue;
      const TaskReport& report = entry.tuner->report();
      task.trials = report.trials;
      task.default_s = report.default_s;
      task.best_s = report.best_s;
      p.default_s += task.weight * report.default_s;
      p.estimated_s += task.weight * report.best_s;
    }
    for (TuneProgress::Task& task : p.tasks)
      if (p.estimated_s > 0) task.share = task.weight * task.best_s / p.estimated_s;
    p.current = current_;
    p.trials = trials();
    p.measured = session_.measured;
    p.failed = session_.failed;
    p.elapsed_s = session_.elapsed_s();
    p.left_s = std::isfinite(options_.max_seconds) ? std::max(0.0, options_.max_seconds - p.elapsed_s) : -1;
    progress_(p);
  }

  TuneReport report() const {
    TuneReport report;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const Entry& entry = entries_[entry_of_[i]];
      TaskReport& task = report.tasks.emplace_back();
      if (entry.tuner) task = entry.tuner->report();
      task.label = tasks_[i].label;
      task.given_up = entry.given_up;
      task.error = entry.error;
      report.default_s += tasks_[i].weight * task.default_s;
      report.estimated_s += tasks_[i].weight * task.best_s;
    }
    report.trials = trials();
    report.measured = session_.measured;
    for (const Entry& entry : entries_) report.points += entry.tuner ? entry.tuner->points() : 0;
    report.seconds = session_.elapsed_s();
    report.profile = session_.profile;
    report.stopped = session_.stopped();
    report.failures = session_.failures;
    return report;
  }

  std::vector<TuneTask> tasks_;
  TuneSession& session_;
  const TuneOptions& options_;
  const std::function<void(const TuneProgress&)>& progress_;
  std::vector<Entry> entries_;
  std::vector<size_t> entry_of_;  // of each task
  int current_ = -1;
  size_t n_failed_ = 0;
  Diagnostic first_error_;
};

}  // namespace

std::string failure_histogram(const std::vector<FailureKind>& failures) {
  int64_t total = 0;
  std::string text;
  for (const FailureKind& kind : failures) {
    total += kind.count;
    const char* const what = kind.error == ErrorCode::E401   ? "could not be built"
                             : kind.error == ErrorCode::E402 ? "took too long"
                             : kind.error == ErrorCode::E403 ? "crashed"
                             : kind.error == ErrorCode::E404 ? "used too much memory"
                             : kind.error == ErrorCode::E405 ? "computed a wrong result"
                                                             : "were lost by the harness";
    text += fmt::format("{}{} {} ({}{})", text.empty() ? "" : ", ", kind.count, what, error_info(kind.error).name,
                        kind.signal != 0 ? ", " + signal_text(kind.signal) : "");
  }
  return fmt::format("{} failed: {}", total, text);
}

Result<TuneReport> tune_tasks(std::vector<TuneTask> tasks, const Target& target, int threads, Database& database,
                              Runner& runner, CostModel& model, const TuneOptions& options,
                              const std::function<void(const TuneProgress&)>& progress) {
  TuneSession session{.target = std::make_shared<const Target>(target),
                      .threads = threads,
                      .database = database,
                      .runner = runner,
                      .learner = Learner(model, options.train_each_batch),
                      .options = options,
                      .versions = program_versions(),
                      .on_result = {},
                      .start = std::chrono::steady_clock::now(),
                      .search_until_s = options.max_seconds};
  return Run(std::move(tasks), session, progress).run();
}

Result<TaskReport> tune_task(const Func& workload, const Target& target, int threads, Database& database,
                             Runner& runner, CostModel& model, const TuneOptions& options) {
  FETTLE_TRY(TuneReport report,
             tune_tasks({{workload, 1, workload->name}}, target, threads, database, runner, model, options));
  return std::move(report.tasks.front());
}

}  // namespace fettle
