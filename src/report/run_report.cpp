#include "report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "driver/bench.h"
#include "driver/kernels.h"
#include "ir/text.h"
#include "tune/task_tuner.h"

namespace fettle {
namespace {

/// Points of the curve, at most.
constexpr size_t kMaxPoints = 2000;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What is known of one task while the records go by.
class TaskHistory {
 public:
  void take(const Record& record) {
    if (record.pace != 1) paces_.push_back(record.pace);
    if (record.generation == kCheckGeneration && record.ok()) return;  // a single run is no time
    if (default_trace_.empty() && record.generation == 0) default_trace_ = record.trace;
    Known& known = of_trace_[record.trace];
    const bool first = known.seconds == 0;
    if (known.confirmed && record.generation != kConfirmationGeneration && record.ok()) return;
    if (record.raced_out && !first && !known.raced_out) return;
    if (known.seconds > 0 && known.seconds == best_s_) best_s_ = 0;  // it may become worse
    known = {usual_seconds(record), record.raced_out, record.generation == kConfirmationGeneration};
    if (best_s_ == 0)
      find_best();
    else if (!known.raced_out && known.seconds < best_s_)
      best_s_ = known.seconds, best_trace_ = record.trace;
  }

  /// 0: none succeeded yet.
  double best_s() const { return best_s_ < kInfinity ? best_s_ : 0; }
  const std::string& best_trace() const { return best_trace_; }
  /// By which all its times are to be multiplied.
  double pace() { return quiet_pace(paces_); }
  double default_s() const {
    const auto found = of_trace_.find(default_trace_);
    return found != of_trace_.end() && found->second.seconds < kInfinity ? found->second.seconds : 0;
  }

 private:
  struct Known {
    double seconds = 0;
    bool raced_out = false;
    bool confirmed = false;
  };
  void find_best() {
    best_s_ = kInfinity;
    best_trace_.clear();
    for (const auto& [trace, known] : of_trace_)
      if (!known.raced_out && known.seconds < best_s_) best_s_ = known.seconds, best_trace_ = trace;
    if (best_s_ == kInfinity) best_s_ = 0;
  }

  std::unordered_map<std::string, Known> of_trace_;
  std::vector<double> paces_;
  std::string default_trace_, best_trace_;
  double best_s_ = 0;
};

bool is_of(const Record& record, const TuningRun& run) {
  return record.task.fingerprint == run.fingerprint && record.task.threads == run.threads &&
         record.task.versions == run.versions && record.task.target_features == run.target_features;
}

/// Fewer points that show the same: those where the estimate changes, then every nth.
std::vector<LatencyPoint> thinned(const std::vector<LatencyPoint>& points) {
  std::vector<LatencyPoint> kept;
  for (size_t i = 0; i < points.size(); ++i)
    if (i == 0 || i + 1 == points.size() || points[i].estimated_s != points[i - 1].estimated_s)
      kept.push_back(points[i]);
  const size_t step = (kept.size() + kMaxPoints - 1) / kMaxPoints;
  if (step <= 1) return kept;
  std::vector<LatencyPoint> fewer;
  for (size_t i = 0; i < kept.size(); i += step) fewer.push_back(kept[i]);
  if (fewer.back().elapsed_s != kept.back().elapsed_s) fewer.push_back(kept.back());
  return fewer;
}

/// What the machine makes of the task's best trace, and the least that it has to do.
void describe_task(ReportedTask& task, const TuningRun& run, const Target& target, const MachinePeaks* peaks) {
  const auto func = parse_func(task.task.workload.text);
  if (!func) return;
  const NecessaryWork work = necessary_work(*func);
  task.flops = work.flops;
  task.bytes = work.read_bytes + work.written_bytes;
  if (peaks) task.limit = least_time(work, target, *peaks, run.threads);
  if (task.trace.empty()) return;
  const auto schedule = replayed_schedule(task.task.workload.text, task.trace, target);
  task.scheduled = schedule ? to_text(schedule->func()) : "# does not replay here: " + schedule.error().to_string();
}

}  // namespace

Result<TuningRun> choose_run(Database& database, int which, const std::string& model) {
  FETTLE_TRY(std::vector<TuningRun> runs, database.runs());
  if (which > 0 && static_cast<size_t>(which) <= runs.size()) return std::move(runs[static_cast<size_t>(which) - 1]);
  if (which > 0)
    return fail(ErrorCode::E709, fmt::format("there is no run {}; the database has {}", which, runs.size()));
  for (size_t i = runs.size(); i-- > 0;)
    if (model.empty() || runs[i].model == model) return std::move(runs[i]);
  if (!runs.empty()) return std::move(runs.back());

  // All records of one machine are one run, in which every task counts once.
  FETTLE_TRY(const std::vector<TaskSummary> summaries, summarize(database));
  std::map<std::tuple<Digest, std::string, int, std::string>, int64_t> sizes;
  const auto key = [](const TaskKey& t) {
    return std::make_tuple(t.fingerprint, t.target_features, t.threads, t.versions);
  };
  for (const TaskSummary& summary : summaries) sizes[key(summary.task)] += summary.n_records;
  if (sizes.empty()) return fail(ErrorCode::E709, "the database has no records");
  const auto largest =
      std::max_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  TuningRun run;
  std::tie(run.fingerprint, run.target_features, run.threads, run.versions) = largest->first;
  run.model = model.empty() ? "all records" : model;
  for (const TaskSummary& summary : summaries) {
    if (key(summary.task) != largest->first) continue;
    run.machine = summary.machine;
    const Workload& workload = summary.task.workload;
    run.tasks.push_back({workload, workload.name() + " " + workload.hash.hex().substr(0, 8), 1, {}});
  }
  return run;
}

Result<RunReport> read_run(Database& database, const TuningRun& run) {
  std::unordered_map<std::string, size_t> task_of;  // by hash
  for (size_t i = 0; i < run.tasks.size(); ++i) task_of.emplace(run.tasks[i].workload.hash.hex(), i);
  RunReport report;
  report.run = run;
  report.tasks.resize(run.tasks.size());
  for (size_t i = 0; i < run.tasks.size(); ++i) report.tasks[i].task = run.tasks[i];

  std::vector<TaskHistory> histories(run.tasks.size());
  std::vector<double> first_s(run.tasks.size(), 0);  // of each, what it has before it is measured
  struct Event {
    double elapsed_s;
    size_t task;
    double best_s;
    bool failed;
  };
  std::vector<Event> events;
  std::map<std::pair<ErrorCode, int>, ReportedFailure> failures;
  std::set<std::tuple<ErrorCode, int, size_t>> failed_in;
  int64_t first_ns = 0;
  FETTLE_TRY_VOID(database.for_each([&](const Record& record) -> Result<> {
    if (!is_of(record, run)) return {};
    const auto found = task_of.find(record.task.workload.hash.hex());
    if (found == task_of.end()) return {};
    const size_t i = found->second;
    const bool ours = record.run == run.id;
    if (!ours && !events.empty()) return {};  // of a later run; earlier ones are what this one began with
    histories[i].take(record);
    if (first_s[i] == 0) first_s[i] = histories[i].best_s();
    if (!ours) return {};
    if (first_ns == 0) first_ns = record.created_ns;
    const double elapsed_s = run.id ? record.elapsed_s : static_cast<double>(record.created_ns - first_ns) * 1e-9;
    events.push_back({elapsed_s, i, histories[i].best_s(), !record.ok()});
    ++report.tasks[i].trials;
    if (record.ok()) return {};
    ++report.tasks[i].failed;
    ReportedFailure& failure = failures[{record.error, record.signal}];
    if (failure.count++ == 0)
      failure = {record.error, record.signal, 1, 0, run.tasks[i].label, record.trace, record.message};
    failure.tasks += failed_in.emplace(record.error, record.signal, i).second;
    return {};
  }));

  // Records that came from a file may lie in another order.
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.elapsed_s < b.elapsed_s; });
  std::vector<double> pace;
  for (size_t i = 0; i < histories.size(); ++i) {
    pace.push_back(histories[i].pace());
    first_s[i] *= pace[i];
  }
  std::vector<double> best_s = first_s;
  double estimated_s = 0;
  for (size_t i = 0; i < best_s.size(); ++i) estimated_s += run.tasks[i].weight * best_s[i];
  std::vector<LatencyPoint> points{{0, estimated_s, 0, 0}};
  for (const Event& event : events) {
    ++report.trials;
    report.failed += event.failed;
    if (event.best_s > 0) {
      const double now_s = pace[event.task] * event.best_s;
      estimated_s += run.tasks[event.task].weight * (now_s - best_s[event.task]);
      best_s[event.task] = now_s;
    }
    points.push_back({event.elapsed_s, estimated_s, report.trials, report.failed});
  }
  report.points = thinned(points);
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    ReportedTask& task = report.tasks[i];
    task.best_s = pace[i] * histories[i].best_s();
    task.default_s = pace[i] * histories[i].default_s();
    task.trace = histories[i].best_trace();
    report.default_s += task.task.weight * task.default_s;
    report.estimated_s += task.task.weight * task.best_s;
  }
  for (auto& [kind, failure] : failures) report.failures.push_back(std::move(failure));
  std::stable_sort(report.failures.begin(), report.failures.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  std::stable_sort(report.tasks.begin(), report.tasks.end(), [](const ReportedTask& a, const ReportedTask& b) {
    return a.task.weight * a.best_s > b.task.weight * b.best_s;
  });
  return report;
}

Result<RunReport> report_run(Database& database, const TuningRun& run, const Target& target,
                             const MachinePeaks* peaks) {
  FETTLE_TRY(RunReport report, read_run(database, run));
  for (ReportedTask& task : report.tasks) describe_task(task, run, target, peaks);
  return report;
}

Result<std::optional<MachinePeaks>> peaks_for(Database& database, const TuningRun& run, const Target& target) {
  FETTLE_TRY(const auto fact, database.fact(run.fingerprint.hex(), peaks_key(run.threads)));
  if (fact)
    if (auto known = MachinePeaks::from_numbers(*fact)) return known;
  if (run.fingerprint != target.fingerprint()) return std::optional<MachinePeaks>();
  Target here = target;
  here.threads = run.threads;
  FETTLE_TRY(MachinePeaks peaks, measure_peaks(here));
  (void)database.set_fact(run.fingerprint.hex(), peaks_key(run.threads), peaks.to_numbers());  // a reader cannot
  return std::optional<MachinePeaks>(std::move(peaks));
}

Result<> add_model_times(RunReport& report, const CompiledModel& compiled) {
  constexpr int kRuns = 20;
  FettleOptions options{};
  options.threads = report.run.threads;
  FETTLE_TRY(const Model model, compiled.instantiate(options));
  FETTLE_TRY(const std::vector<NamedTensor> inputs, random_inputs(model, 0));
  FETTLE_TRY(ModelContext context, model.make_context());
  FETTLE_TRY(const std::vector<KernelTime> times, profile_model(context, inputs, kRuns, nullptr));
  std::unordered_map<std::string, double> seconds;  // by call
  std::unordered_map<std::string, double> sums;     // by call, of one run
  for (const KernelTime& time : times) sums[time.name] += static_cast<double>(time.total_ns) * 1e-9 / kRuns;
  for (const GraphCall& call : compiled.calls()) report.calls.push_back({call, sums[call.name]});
  for (const KernelTime& time : times)
    if (time.calls > 0)
      seconds[time.name] = static_cast<double>(time.total_ns) * 1e-9 / static_cast<double>(time.calls);
  std::unordered_map<std::string, double> mean;  // by task
  for (const TaskInfo& task : compiled.tasks()) {
    double sum = 0;
    for (const TaskCall& call : task.calls) sum += seconds[call.name];
    if (!task.calls.empty()) mean[task.hash] = sum / static_cast<double>(task.calls.size());
  }
  for (ReportedTask& task : report.tasks)
    if (const auto found = mean.find(task.task.workload.hash.hex()); found != mean.end())
      task.in_model_s = found->second;
  return {};
}

}  // namespace fettle
