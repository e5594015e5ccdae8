#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/interruption.h"
#include "database/json_lines.h"
#include "database/sqlite_database.h"
#include "driver/open.h"
#include "records/check_records.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string file, other, task;
  int best = 0, top = 1;
  bool json = false;
};

nlohmann::json describe(const TaskSummary& summary) {
  nlohmann::json made = {{"task", summary.task.workload.hash.hex()},
                         {"name", summary.task.workload.name()},
                         {"threads", summary.task.threads},
                         {"machine", summary.machine},
                         {"records", summary.n_records},
                         {"failed", summary.n_failed}};
  if (summary.best) made["best_us"] = summary.best->median_s * 1e6;
  return made;
}

Result<Report> list_records(const Options& options) {
  FETTLE_TRY(const std::shared_ptr<Database> database, open_records(options.file));
  FETTLE_TRY(const std::vector<TaskSummary> summaries, summarize(*database));
  Report report;
  report.json["tasks"] = nlohmann::json::array();
  report.text =
      fmt::format("{:<8} {:>7} {:>7} {:>6} {:>12}  program\n", "task", "threads", "records", "failed", "best us");
  for (const TaskSummary& summary : summaries) {
    report.json["tasks"].push_back(describe(summary));
    report.text += fmt::format("{:<8} {:>7} {:>7} {:>6} {:>12}  {}\n", summary.task.workload.hash.hex().substr(0, 8),
                               summary.task.threads, summary.n_records, summary.n_failed,
                               summary.best ? fmt::format("{:.2f}", summary.best->median_s * 1e6) : "-",
                               summary.task.workload.name());
  }
  return report;
}

Result<Report> show_task(const Options& options) {
  FETTLE_TRY(const std::shared_ptr<Database> database, open_records(options.file));
  FETTLE_TRY(const std::vector<TaskSummary> summaries, summarize(*database));
  Report report;
  report.json["tasks"] = nlohmann::json::array();
  for (const TaskSummary& summary : summaries) {
    if (!summary.task.workload.hash.hex().starts_with(options.task)) continue;
    nlohmann::json made = describe(summary);
    made["workload"] = summary.task.workload.text;
    report.text += fmt::format("task {} on {}, {} threads: {} records\n{}\n", summary.task.workload.hash.hex(),
                               summary.machine, summary.task.threads, summary.n_records, summary.task.workload.text);
    if (summary.best) {
      made["trace"] = summary.best->trace;
      report.text += fmt::format("best: {:.2f} us\n{}\n", summary.best->median_s * 1e6, summary.best->trace);
    }
    report.json["tasks"].push_back(std::move(made));
  }
  if (report.json["tasks"].empty())
    return fail(ErrorCode::E709, fmt::format("no task's hash begins with '{}'; see db ls", options.task), "--task");
  return report;
}

Result<Report> export_file(const Options& options) {
  FETTLE_TRY(const std::shared_ptr<Database> database, open_records(options.file));
  FETTLE_TRY(const int64_t count, export_records(*database, options.other, options.best));
  Report report;
  report.json = {{"records", count}, {"file", options.other}};
  report.text = fmt::format("{} records written to {}\n", count, options.other);
  return report;
}

Result<Report> import_file(const Options& options) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(options.other, error))
    return fail(ErrorCode::E701, "there is no such file", options.other);
  FETTLE_TRY(const std::unique_ptr<Database> database, open_sqlite_database(options.file));
  FETTLE_TRY(const int64_t count, import_records(*database, options.other));
  Report report;
  report.json = {{"records", count}, {"database", options.file}};
  report.text = fmt::format("{} new records\n", count);
  return report;
}

nlohmann::json describe(const CheckedRecord& checked) {
  const TaskKey& task = checked.record.task;
  nlohmann::json made = {{"task", task.workload.hash.hex()},
                         {"name", task.workload.name()},
                         {"threads", task.threads},
                         {"trace", checked.record.trace},
                         {"recorded_us", checked.record.median_s * 1e6},
                         {"right", checked.now.ok()}};
  if (checked.now.ok()) {
    made["now_us"] = checked.now.median_s * 1e6;
  } else {
    made["code"] = std::string(error_info(checked.now.error).name);
    made["message"] = checked.now.message;
  }
  return made;
}

Result<Report> check_tasks(const Options& options) {
  FETTLE_TRY_VOID(open_records(options.file));  // it exists, and is one
  FETTLE_TRY(const std::unique_ptr<Database> database, open_sqlite_database(options.file));
  InterruptGuard guard;
  FETTLE_TRY(const RecordsReport checked,
             check_records(*database,
                           {.top = options.top, .task = options.task, .stop = &guard.interrupted(), .say = progress}));
  Report report;
  report.json = {{"records", nlohmann::json::array()},
                 {"wrong", checked.wrong},
                 {"tasks_elsewhere", checked.elsewhere},
                 {"tasks_outdated", checked.outdated}};
  for (const CheckedRecord& c : checked.checked) {
    report.json["records"].push_back(describe(c));
    report.text += fmt::format("{}  {:>2} threads {:>12.2f} us  {}\n", c.record.task.workload.hash.hex().substr(0, 8),
                               c.record.task.threads, c.record.median_s * 1e6,
                               c.now.ok() ? fmt::format("right, {:.2f} us now", c.now.median_s * 1e6)
                                          : fmt::format("{}: {}", error_info(c.now.error).name, c.now.message));
  }
  report.text += fmt::format("{} schedules run again, {} of them not right\n", checked.checked.size(), checked.wrong);
  if (checked.elsewhere > 0)
    report.text +=
        fmt::format("{} tasks are of another machine or of more threads than there are here\n", checked.elsewhere);
  if (checked.outdated > 0)
    report.text += fmt::format("{} tasks were compiled otherwise than this version does\n", checked.outdated);
  report.status = checked.wrong > 0 ? kCouldNot : kDone;
  return report;
}

}  // namespace

std::vector<Command> add_db_commands(App& app) {
  App* group = app.add_subcommand("db", "Look at records of tuning, hand them on, take them in");
  group->footer("Example:\n  fettle db ls records.db");
  group->require_subcommand(1);
  std::vector<Command> commands;
  const auto add = [&](const std::string& name, const std::string& what, const std::string& example,
                       Result<Report> (*run)(const Options&)) {
    auto options = std::make_shared<Options>();
    App* made = add_subcommand(*group, name, what, example, &options->json);
    made->add_option("database", options->file, "the database")->required()->type_name("F");
    commands.push_back({made, [options, run] { return run(*options); }, &options->json});
    return std::pair{made, options};
  };
  add("ls", "List the tasks and the best of each", "fettle db ls records.db", list_records);
  const auto [show, show_options] =
      add("show", "Show programs, their best schedules and times", "fettle db show records.db --task 1f0c", show_task);
  show->add_option("--task", show_options->task, "the beginning of a task's hash; default: all")->type_name("HASH");
  const auto [out, out_options] =
      add("export", "Write all records as lines of JSON", "fettle db export records.db records.jsonl", export_file);
  out->add_option("file", out_options->other, "where to")->required()->type_name("FILE.jsonl");
  out->add_option("--best", out_options->best, "of each task only the fastest N that are right; default: all records")
      ->type_name("N")
      ->between(1, 1000000);
  const auto [in, in_options] = add("import", "Add records from lines of JSON: all or none",
                                    "fettle db import records.db records.jsonl", import_file);
  in->add_option("file", in_options->other, "where from")->required()->type_name("FILE.jsonl");
  const auto [check, check_options] =
      add("check", "Run the best schedules again and compare their results; what is wrong is not used any more",
          "fettle db check records.db --top 3", check_tasks);
  check->add_option("--top", check_options->top, "of each task the fastest N; default 1")
      ->type_name("N")
      ->between(1, 1000000);
  check->add_option("--task", check_options->task, "the beginning of a task's hash; default: all")->type_name("HASH");
  return commands;
}

}  // namespace fettle::cli
