#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <thread>

#include "cli/command.h"
#include "cli/interruption.h"
#include "cli/tune_display.h"
#include "driver/open.h"
#include "report/run_report.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string database, model, every_text = "1s";
  bool once = false, json = false;
};

double seconds_since(int64_t created_ns) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + (static_cast<double>(now.tv_nsec) - static_cast<double>(created_ns)) * 1e-9;
}

/// What the records say of a run, as the tuner itself shows it.
TuneProgress progress_of(const RunReport& report) {
  TuneProgress progress;
  for (const ReportedTask& task : report.tasks) {
    const double share = report.estimated_s > 0 ? task.task.weight * task.best_s / report.estimated_s : 0;
    progress.tasks.push_back(
        {task.task.label, task.task.weight, task.trials, task.default_s, task.best_s, share, false});
  }
  progress.trials = progress.measured = report.trials;
  progress.failed = report.failed;
  progress.default_s = report.default_s;
  progress.estimated_s = report.estimated_s;
  const bool ended = report.run.seconds > 0;
  progress.elapsed_s = ended ? report.run.seconds : seconds_since(report.run.created_ns);
  return progress;
}

nlohmann::json describe(const TuningRun& run, const TuneProgress& progress) {
  return {{"model", run.model},
          {"ended", run.seconds > 0},
          {"elapsed_s", progress.elapsed_s},
          {"trials", progress.trials},
          {"failed", progress.failed},
          {"estimated_ms", progress.estimated_s * 1e3},
          {"untuned_ms", progress.default_s * 1e3},
          {"tasks", json_list(progress.tasks, [](const TuneProgress::Task& task) -> nlohmann::json {
             return {{"label", task.label},
                     {"weight", task.weight},
                     {"trials", task.trials},
                     {"share", task.share},
                     {"best_ms", task.best_s * 1e3}};
           })}};
}

/// The newest run, as long as it goes on; once where it has ended, or where that was asked for.
Result<Report> top(const Options& options) {
  double every_s = 1;
  if (!parse_seconds(options.every_text, &every_s) || every_s <= 0)
    return fail(ErrorCode::E709, "'" + options.every_text + "' is no duration such as 1s", "--every");
  const std::string path = options.database.empty() ? default_database() : options.database;
  TuneDisplay display(!options.json && isatty(STDERR_FILENO) != 0);
  InterruptGuard interrupt;
  for (;;) {
    FETTLE_TRY(const std::shared_ptr<Database> database, open_records(path));
    FETTLE_TRY(const TuningRun run, choose_run(*database, 0, options.model));
    FETTLE_TRY(const RunReport report, read_run(*database, run));
    const TuneProgress progress = progress_of(report);
    const bool last = options.once || options.json || run.seconds > 0 || interrupt.interrupted();
    if (last) {
      Report made;
      made.text = fmt::format("{}: {}\n{}", run.model, run.seconds > 0 ? "ended" : "under way",
                              progress_table(progress, progress.tasks.size(), 80));
      made.json = describe(run, progress);
      return made;
    }
    display.show(progress);
    std::this_thread::sleep_for(std::chrono::duration<double>(every_s));
  }
}

}  // namespace

Command add_top_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "top", "Watch a tuning that is under way, from its records",
                             "fettle top --db records.db", &options->json);
  made->add_option("--db", options->database, "records that the tuning writes; default: those of `fettle tune`")
      ->type_name("FILE");
  made->add_option("--model", options->model, "the newest run of this model; default: of any")->type_name("NAME");
  made->add_option("--every", options->every_text, "how often it is looked at")
      ->type_name("TIME")
      ->capture_default_str();
  made->add_flag("--once", options->once, "look once");
  return {made, [options] { return top(*options); }, &options->json};
}

}  // namespace fettle::cli
