// Whole models tuned: which of their tasks become faster than the constructed default, and how far the others are from
// what the machine can do at all.
//
// Records stay in OUT/tasks/NAME.THREADS.db; without --fresh, a run goes on from them.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "database/sqlite_database.h"
#include "harness/report.h"
#include "models/program.h"
#include "models/table.h"
#include "report/run_report.h"

namespace fs = std::filesystem;
using namespace fettle;
using namespace fettle::bench;

namespace {

struct Options {
  std::string time = "5m", out = "build/bench";
  int threads = 2;
  bool fresh = false, quiet = false;
};

// A task counts as faster from here on, as while tuning (GradientSchedulerOptions::progress); it is at its limit where
// the machine's peaks, measured once and shared with what else runs, leave it no more than that.
constexpr double kFaster = 0.995, kAtLimit = 0.9;

bool improved(const ReportedTask& task) { return task.best_s < kFaster * task.default_s; }
bool at_limit(const ReportedTask& task) { return task.limit.seconds >= kAtLimit * task.best_s; }

Result<RunReport> tune(const TableModel& model, const Options& options) {
  const std::string folder = options.out + "/tasks";
  const std::string file = fmt::format("{}/{}.{}.db", folder, model.name, options.threads);
  if (options.fresh)
    for (const char* ending : {"", "-wal", "-shm"}) fs::remove(file + ending);
  std::vector<std::string> args{"tune", model.file, "--threads", std::to_string(options.threads),
                                "--db", file,       "--time",    options.time};
  const std::vector<std::string> shapes = shape_arguments(model.shapes());
  args.insert(args.end(), shapes.begin(), shapes.end());
  FETTLE_TRY_VOID(run_fettle(args, folder + "/home", options.quiet));
  FETTLE_TRY(const std::unique_ptr<Database> database, open_sqlite_database(file));
  FETTLE_TRY(const TuningRun run, choose_run(*database, 0));
  const Target target = detect_host(options.threads);
  FETTLE_TRY(const std::optional<MachinePeaks> peaks, peaks_for(*database, run, target));
  return report_run(*database, run, target, peaks ? &*peaks : nullptr);
}

void add_rows(const TableModel& model, const RunReport& run, Report& report) {
  int64_t faster = 0, near = 0;
  double left_s = 0;  // in tasks that are neither
  fmt::print("{}: neither faster than untuned nor within {:.0f} % of the machine's limit\n", model.name,
             100 * kAtLimit);
  for (const ReportedTask& task : run.tasks) {
    faster += improved(task) ? 1 : 0;
    near += !improved(task) && at_limit(task) ? 1 : 0;
    if (improved(task) || at_limit(task)) continue;
    left_s += task.task.weight * task.best_s;
    fmt::print("  {:<36} {:>4} trials  {:>9.2f} us  {:>5.1f} % of the limit ({}), {:.2f} % of the model's time\n",
               task.task.label, task.trials, 1e6 * task.best_s, 100 * task.limit.seconds / task.best_s, task.limit.by,
               100 * task.task.weight * task.best_s / run.estimated_s);
  }
  const auto all = static_cast<int64_t>(run.tasks.size());
  const auto add = [&](const char* what, double value, const char* unit, std::optional<Bound> bound = {}) {
    report.add(fmt::format("{}: {}", model.name, what), value, unit, bound);
  };
  add("tasks", static_cast<double>(all), "");
  add("trials", static_cast<double>(run.trials), "");
  add("trials that failed", static_cast<double>(run.failed), "", at_most(0));
  add("tasks faster than untuned", static_cast<double>(faster), "");
  add("others, within 90 % of the machine's limit", static_cast<double>(near), "");
  add("tasks that are neither", static_cast<double>(all - faster - near), "", at_most(0));
  add("these tasks' share of the model's time", 100 * left_s / run.estimated_s, "%");
  add("time of all tasks, untuned", 1e3 * run.default_s, "ms");
  add("time of all tasks, tuned", 1e3 * run.estimated_s, "ms");
}

Result<bool> tune_all(const std::vector<std::string>& names, const Options& options) {
  FETTLE_TRY(const std::vector<TableModel> models, read_model_table());
  std::vector<TableModel> chosen;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(models, name, &TableModel::name);
    if (found == models.end()) return fail(ErrorCode::E709, "the table has no model '" + name + "'", "--only");
    chosen.push_back(*found);
  }
  fs::create_directories(options.out + "/tasks/home");
  Report report("tasks");
  for (const TableModel& model : chosen) {
    FETTLE_TRY(const RunReport run, tune(model, options));
    add_rows(model, run, report);
    FETTLE_TRY_VOID(report.write(options.out));  // what is known so far, if this is the last
  }
  fmt::print("{}", report.table());
  return report.all_hold();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> names = {"mobilenet_v2", "resnet50", "ppocrv4_rec"};
  CLI::App app(
      "Tasks of whole models: tuned, and beside the machine's limits. Exits with 1 if a figure misses its bound.");
  app.add_option("--only", names, "models of benchmarks/models.json")->delimiter(',')->capture_default_str();
  app.add_option("--time", options.time, "for each model")->capture_default_str();
  app.add_option("--threads", options.threads)->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--out", options.out, "folder of tasks.json, and of tasks/ with the records")->capture_default_str();
  app.add_flag("--fresh", options.fresh, "forget what earlier runs measured");
  app.add_flag("--quiet", options.quiet, "no progress");
  CLI11_PARSE(app, argc, argv);
  const Result<bool> done = tune_all(names, options);
  if (!done) fmt::print(stderr, "{}\n", done.error().to_string());
  return done && *done ? 0 : 1;
}
