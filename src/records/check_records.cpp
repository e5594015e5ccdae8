#include "records/check_records.h"

#include <fmt/format.h>

#include "codegen/build.h"
#include "ir/text.h"
#include "measure/local_measurer.h"
#include "measure/outcome.h"
#include "target/target.h"

namespace fettle {
namespace {

/// The runner for tasks of so many threads and streams, started when first asked for; one at a time, since each has its
/// workers.
class Runners {
 public:
  Result<LocalMeasurer*> of(const Target& target) {
    if (!runner_ || threads_ != target.threads || streams_ != target.streams) {
      runner_.reset();
      LocalMeasurerOptions options;
      options.target = target;
      options.threads = threads_ = target.threads;
      streams_ = target.streams;
      FETTLE_TRY(runner_, LocalMeasurer::start(std::move(options)));
    }
    return runner_.get();
  }

 private:
  std::unique_ptr<LocalMeasurer> runner_;
  int threads_ = 0, streams_ = 0;
};

bool says_something(const MeasureResult& result) {
  return result.error != ErrorCode::E406 && result.error != ErrorCode::E407;
}

Record record_of_check(const Record& checked, const MeasureResult& now) {
  Record record = checked;
  set_outcome(record, now);
  record.created_ns = now_ns();
  record.run = 0;
  record.elapsed_s = 0;
  record.generation = kCheckGeneration;
  return record;
}

Result<> check_task(Database& database, const TaskSummary& summary, const CheckRecordsOptions& options,
                    LocalMeasurer& runner, RecordsReport* report) {
  FETTLE_TRY(const std::vector<Record> best, database.best(summary.task, options.top));
  if (best.empty()) return {};
  if (options.say)
    options.say(fmt::format("{} {}, {} threads: {} schedules", summary.task.workload.hash.hex().substr(0, 8),
                            summary.task.workload.name(), summary.task.threads, best.size()));
  FETTLE_TRY(const Func workload, parse_func(summary.task.workload.text));
  FETTLE_TRY_VOID(runner.set_workload(workload));
  std::vector<std::string> traces;
  for (const Record& record : best) traces.push_back(record.trace);
  MeasureRequest request;
  request.check = true;
  if (options.stop) request.should_stop = [&] { return options.stop->load(); };
  FETTLE_TRY(const std::vector<MeasureResult> results, runner.measure(traces, request));
  for (size_t i = 0; i < results.size(); ++i) {
    if (says_something(results[i])) FETTLE_TRY_VOID(database.add(record_of_check(best[i], results[i])));
    report->wrong += !results[i].ok() && says_something(results[i]);
    report->checked.push_back({best[i], results[i]});
  }
  return {};
}

}  // namespace

Result<RecordsReport> check_records(Database& database, const CheckRecordsOptions& options) {
  FETTLE_TRY(const std::vector<TaskSummary> summaries, summarize(database));
  RecordsReport report;
  Runners runners;
  for (const TaskSummary& summary : summaries) {
    const TaskKey& task = summary.task;
    if (!task.workload.hash.hex().starts_with(options.task)) continue;
    if (options.stop && *options.stop) break;
    const std::optional<Target> target = host_of(task.fingerprint, task.threads);
    if (!target || task.threads > available_threads()) {
      ++report.elsewhere;
      continue;
    }
    if (task.versions != program_versions()) {
      ++report.outdated;
      continue;
    }
    FETTLE_TRY(LocalMeasurer * runner, runners.of(*target));
    FETTLE_TRY_VOID(check_task(database, summary, options, *runner, &report));
  }
  return report;
}

}  // namespace fettle
