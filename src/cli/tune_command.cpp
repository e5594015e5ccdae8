#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "cli/interruption.h"
#include "cli/tracker_options.h"
#include "cli/tune_display.h"
#include "database/sqlite_database.h"
#include "driver/open.h"
#include "driver/tune.h"
#include "generations/registry.h"
#include "remote/remote_measurer.h"

namespace fettle::cli {
namespace {

struct Options {
  ModelFile model;
  std::string target, database, time_text, page;
  int64_t trials = 0;
  int threads = 0, streams = 0;
  uint64_t seed = 0;
  int search_threads = 0;
  double max_error = std::numeric_limits<double>::infinity();
  KernelSources vendor;
  std::string generation, space, strategy, learner, cost_model, scheduler, objective;
  WorkloadEquality workload_equality = WorkloadEquality::kStructural;
  InputShapes shapes;
  OpenSizes sizes;
  Limits limits;
  std::string tracker, key;
  CredentialFiles credentials;
  bool json = false;
};

/// How candidates failed, a line a kind.
std::string failure_text(const std::vector<FailureKind>& failures) {
  if (failures.empty()) return "";
  std::string text = failure_histogram(failures) + "\n";
  for (const FailureKind& kind : failures)
    text += fmt::format("  {} of {}: {}\n", error_info(kind.error).name, kind.task, kind.message);
  return text;
}

nlohmann::json describe(const FailureKind& kind) {
  return {{"code", std::string(error_info(kind.error).name)},
          {"signal", kind.signal},
          {"count", kind.count},
          {"first", {{"label", kind.task}, {"trace", kind.trace}, {"message", kind.message}}}};
}

nlohmann::json describe(const TaskReport& task) {
  nlohmann::json json = {{"label", task.label},
                         {"trials", task.trials},
                         {"measured", task.measured},
                         {"failed", task.failed},
                         {"default_us", task.default_s * 1e6},
                         {"best_us", task.best_s * 1e6},
                         {"confirmed", task.confirmed},
                         {"quarantined", task.quarantined}};
  if (task.error.code != ErrorCode::kNone) json["error"] = task.error.to_string();
  return json;
}

nlohmann::json describe(const TuneProfile& profile) {
  return {{"prepare", profile.prepare_s}, {"propose", profile.propose_s}, {"measure", profile.measure_s},
          {"learn", profile.learn_s},     {"confirm", profile.confirm_s}, {"build", profile.build_s},
          {"run", profile.run_s}};
}

std::string profile_text(const TuneReport& done) {
  const TuneProfile& p = done.profile;
  const double total_s = std::max(1e-9, done.seconds);
  return fmt::format(
      "of that time {:.0f} % measured, {:.0f} % proposed candidates, {:.0f} % learned, {:.0f} % confirmed the best, "
      "{:.0f} % prepared\n",
      100 * p.measure_s / total_s, 100 * p.propose_s / total_s, 100 * p.learn_s / total_s, 100 * p.confirm_s / total_s,
      100 * p.prepare_s / total_s);
}

/// What tuning for several calls at once came to: runs that all of them together do in a second.
std::string throughput_text(const TuneModelResult& tuned, int streams) {
  const double untuned = streams * 1e3 / tuned.untuned_ms, now = streams * 1e3 / tuned.tuned_ms;
  const std::string before = fmt::format("{} streams: {:.2f} runs/s", streams, untuned);
  if (tuned.kept_untuned)
    return fmt::format("{} untuned, {:.2f} tuned; the defaults are kept for this model\n", before, now);
  if (tuned.other_schedules == 0) return before + "; nothing was found that is faster than the defaults\n";
  return fmt::format("{} untuned, {:.2f} tuned, {:.2f} times as many; {} of {} tasks have other schedules\n", before,
                     now, now / untuned, tuned.other_schedules, tuned.report.tasks.size());
}

/// What tuning came to for the model as a whole, where that was timed.
std::string latency_text(const TuneModelResult& tuned) {
  if (tuned.kept_untuned)
    return fmt::format("latency {:.3f} ms untuned, {:.3f} ms tuned; the defaults are kept for this model\n",
                       tuned.untuned_ms, tuned.tuned_ms);
  if (tuned.other_schedules == 0)
    return fmt::format("latency {:.3f} ms; nothing was found that is faster than the defaults\n", tuned.untuned_ms);
  return fmt::format("latency {:.3f} ms untuned, {:.3f} ms tuned, {:.2f} of it; {} of {} tasks have other schedules\n",
                     tuned.untuned_ms, tuned.tuned_ms, tuned.tuned_ms / tuned.untuned_ms, tuned.other_schedules,
                     tuned.report.tasks.size());
}

/// "latency", "speedup" or "requirement=5ms"; and, after a comma or alone, "early-stop=3". E709
Result<> read_objective(const std::string& text, AnsorGoal* goal) {
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    at = comma + 1;
    const std::string value = part.substr(std::min(part.find('='), part.size() - 1) + 1);
    if (part == "latency") {
      goal->objective = TuneObjective::kLatency;
    } else if (part == "speedup") {
      goal->objective = TuneObjective::kSpeedup;
    } else if (part.starts_with("requirement=") && parse_seconds(value, &goal->required_s)) {
      goal->objective = TuneObjective::kRequirement;
    } else if (part.starts_with("early-stop=") && value.size() <= 4 && !value.empty() &&
               value.find_first_not_of("0123456789") == std::string::npos) {
      goal->early_stop = std::stoi(value);
    } else {
      return fail(ErrorCode::E709, "'" + part + "' is none of latency, speedup, requirement=5ms, early-stop=3",
                  "--objective");
    }
  }
  return {};
}

/// What the names say, for this target; the space must live as long as the tuning.
Result<std::unique_ptr<Space>> set_up_search(const Options& options, TuneModelOptions* tuning) {
  FETTLE_TRY(const SearchSetup setup, resolve_search({.generation = options.generation,
                                                      .space = options.space,
                                                      .strategy = options.strategy,
                                                      .cost_model = options.learner,
                                                      .scheduler = options.scheduler},
                                                     tuning->target));
  AnsorGoal goal;
  FETTLE_TRY_VOID(read_objective(options.objective, &goal));
  if (!options.objective.empty() && !setup.scheduler->has_goals)
    return fail(ErrorCode::E709,
                fmt::format("the scheduler {} has one objective only; ansor has several", setup.scheduler->name),
                "--objective");
  std::unique_ptr<Space> space = setup.space->make();
  tuning->space = space.get();
  tuning->strategy = setup.strategy;
  tuning->learner = setup.cost_model;
  tuning->make_scheduler = setup.scheduler->make(goal);
  if (setup.generation) {
    tuning->batch = setup.generation->batch;
    tuning->train_each_batch = setup.generation->train_each_batch;
  }
  return space;
}

/// The devices to tune on.
Result<std::unique_ptr<RemoteMeasurer>> connect(const Options& options, const std::atomic<bool>* stop) {
  if (options.threads > 0) return fail(ErrorCode::E709, "the devices say how many threads they give", "--threads");
  if (options.streams > 1)
    return fail(ErrorCode::E709, "devices time one call at a time; tune for several on the machine itself",
                "--streams");
  RemoteMeasurerOptions remote;
  FETTLE_TRY(remote.tracker, parse_address(options.tracker));
  FETTLE_TRY(remote.credentials, client_credentials(remote.tracker, options.credentials));
  remote.key = options.key;
  remote.stop = stop;
  return RemoteMeasurer::connect(std::move(remote));
}

Result<Report> tune(const Options& options) {
  double seconds = std::numeric_limits<double>::infinity();
  if (!options.time_text.empty() && !parse_seconds(options.time_text, &seconds))
    return fail(ErrorCode::E709, "'" + options.time_text + "' is no duration such as 5m", "--time");
  if (options.time_text.empty() && options.trials == 0) seconds = 300;
  TuneModelOptions tuning;

  std::string path = options.database.empty() ? default_database() : options.database;
  if (path.empty()) return fail(ErrorCode::E501, "no home folder is known; give --db");
  if (options.database.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  }
  FETTLE_TRY(
      const Graph graph,
      load_model(options.model, options.shapes, options.sizes, {}, {},
                 passes_left_out({.threads = options.threads, .streams = options.streams, .target = options.target}),
                 options.limits));
  note_function(options.model, graph, progress);
  InterruptGuard guard;
  tuning.stop = &guard.interrupted();
  std::unique_ptr<RemoteMeasurer> devices;
  FETTLE_TRY(tuning.target,
             target_of({.threads = options.threads, .streams = options.streams, .target = options.target}));
  if (!options.tracker.empty()) {
    FETTLE_TRY(devices, connect(options, tuning.stop));
    tuning.runner = devices.get();
    tuning.micro_kernels = devices->micro_kernels();
    tuning.target = devices->target();
    tuning.elsewhere =
        detect_host().fingerprint() != tuning.target.fingerprint() || available_threads() < devices->threads();
    progress(fmt::format("{} at {}: {}{}", options.key, options.tracker, fettle::describe(tuning.target),
                         tuning.elsewhere ? "; this machine is another one, and is not timed on" : ""));
  }
  FETTLE_TRY(const std::unique_ptr<Space> space, set_up_search(options, &tuning));
  FETTLE_TRY(std::unique_ptr<Database> opened, open_sqlite_database(path));
  std::shared_ptr<Database> database = std::move(opened);
  if (options.workload_equality != WorkloadEquality::kStructural)
    database = make_equality_database(std::move(database), options.workload_equality);

  tuning.threads = devices ? devices->threads() : tuning.target.threads;
  tuning.seconds = seconds;
  if (options.trials > 0) tuning.trials = options.trials;
  tuning.seed = options.seed;
  tuning.search_threads = options.search_threads;
  tuning.max_error_bound = options.max_error;
  tuning.kernel_sources = options.vendor;
  tuning.cost_model = options.cost_model;
  tuning.name = model_name(options.model);
  TuneDisplay display(isatty(STDERR_FILENO) != 0);
  tuning.progress = [&](const TuneProgress& progress) { display.show(progress); };
  tuning.say = [&](const std::string& line) { display.say(line); };
  const Result<TuneModelResult> tuned = tune_model(graph, database, tuning);
  display.finish();
  if (!tuned) return fail(tuned.error());

  const TuneReport& done = tuned->report;
  Report report;
  report.json = {{"database", path},
                 {"threads", tuning.threads},
                 {"streams", tuning.target.streams},
                 {"tasks", json_list(done.tasks, [](const TaskReport& task) { return describe(task); })},
                 {"failures", json_list(done.failures, [](const FailureKind& kind) { return describe(kind); })},
                 {"trials", done.trials},
                 {"measured", done.measured},
                 {"seconds", done.seconds},
                 {"phases_s", describe(done.profile)},
                 {"interrupted", done.stopped},
                 {"kept_untuned", tuned->kept_untuned},
                 {"other_schedules", tuned->other_schedules},
                 {"kept_defaults", tuned->kept_defaults}};
  add_function_json(report.json, graph.function());
  report.text = fmt::format("{} trials ({} measured now) of {} tasks in {:.0f} s, recorded in {}\n", done.trials,
                            done.measured, done.tasks.size(), done.seconds, path);
  report.text += profile_text(done) + failure_text(done.failures);
  if (done.trials == 0 && !done.stopped && std::isfinite(seconds))
    report.text += "no time was left for candidates: give it more with --time\n";
  for (const TaskReport& task : done.tasks)
    if (task.quarantined) report.text += fmt::format("{} was left alone: its candidates end workers\n", task.label);
  for (const TaskReport& task : done.tasks)
    if (task.error.code != ErrorCode::kNone)
      report.text += fmt::format("{} ended early: {}\n", task.label, task.error.to_string());
  if (done.stopped) report.text += "interrupted; all that was measured is kept\n";
  if (tuned->tuned_ms > 0) {
    report.json["latency_ms"] = {{"untuned", tuned->untuned_ms}, {"tuned", tuned->tuned_ms}};
    const int streams = tuning.target.streams;
    report.json["runs_per_second"] = {{"untuned", streams * 1e3 / tuned->untuned_ms},
                                      {"tuned", streams * 1e3 / tuned->tuned_ms}};
    report.text += streams > 1 ? throughput_text(*tuned, streams) : latency_text(*tuned);
    if (tuned->kept_defaults > 0)
      report.text +=
          fmt::format("{} tasks keep their defaults, which are faster inside the model\n", tuned->kept_defaults);
  }
  report.json["run"] = fmt::format("{:016x}", tuned->run);
  if (!options.page.empty()) {
    FETTLE_TRY_VOID(write_tuning_report(database, graph, tuning.target, tuned->run, options.page));
    report.json["report"] = options.page;
    report.text += "report in " + options.page + "\n";
  }
  report.text = wrapped_lines(report.text, 2);
  return report;
}

template <class Def>
std::vector<std::string> names(std::span<const Def> defs) {
  std::vector<std::string> all;
  for (const Def& def : defs) all.emplace_back(def.name);
  return all;
}

std::vector<std::string> published() {
  std::vector<std::string> all;
  for (const GenerationDef* def : generations()) all.emplace_back(def->name);
  return all;
}

void add_named(App* command, const char* option, std::string* name, std::vector<std::string> known, const char* help) {
  command->add_option(option, *name, help)->one_of(std::move(known));
}

}  // namespace

Command add_tune_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made =
      add_subcommand(app, "tune", "Search for fast schedules and record every measurement; run again, it goes on",
                     "fettle tune model.onnx --shape x=1,3,48,320 --time 60s --db records.db", &options->json);
  add_model(made, &options->model, false);
  made->add_option("--db", options->database, "where records are kept; default: one of the user's")->type_name("FILE");
  auto* time =
      made->add_option("--time", options->time_text, "all in all, while the machine is awake: 60s, 5m, 1h; default 5m")
          ->type_name("TIME");
  auto* trials = made->add_option("--trials", options->trials, "measurements, of all tasks together")
                     ->between(int64_t{1}, int64_t{1} << 40);
  time->excludes(trials);
  made->add_option("--seed", options->seed, "of all that is drawn")->capture_default_str();
  made->add_option(
          "--search-threads", options->search_threads,
          "that make candidates between measurements, whichever their number the same ones; default: all there are")
      ->type_name("N")
      ->between(1, 256);
  add_named(made, "--generation", &options->generation, published(), "all four of the following as it was published");
  std::vector<std::string> known = names(spaces());
  known.emplace_back("template");  // as autotvm was called
  add_named(made, "--space", &options->space, std::move(known), "what programs may become; default rules");
  add_max_error(made, &options->max_error);
  add_vendor(made, &options->vendor);
  add_named(made, "--strategy", &options->strategy, names(strategies()),
            "how each space is searched; default evolutionary");
  add_named(made, "--cost-model", &options->learner, names(cost_models()),
            "what ranks candidates before they are measured; default trees");
  add_named(made, "--scheduler", &options->scheduler, names(schedulers()),
            "which task gets the next batch; default gradient");
  made->add_option(
          "--objective", options->objective,
          "what Ansor's scheduler makes small: latency, speedup, requirement=5ms; early-stop=3 gives up a task "
          "after so many rounds in vain")
      ->type_name("NAME,…");
  // What another program of the same anchor takes is not what this one takes: that is for `compile` alone.
  add_workload_equality(made, &options->workload_equality, 2);
  made->add_option("--model", options->cost_model,
                   "start from the cost model of this file, if it exists; write what was learned")
      ->type_name("FILE");
  made->add_option("--report", options->page, "write what was done as a page, too")->type_name("F.html");
  auto* tracker = made->add_option("--tracker", options->tracker, "measure on devices that this tracker knows")
                      ->type_name("HOST:PORT");
  auto* key = made->add_option("--key", options->key, "which of them")->type_name("KEY");
  tracker->needs(key);
  key->needs(tracker);
  add_credentials(made, &options->credentials);
  add_threads(made, &options->threads);
  add_streams(made, &options->streams);
  add_target(made, &options->target);
  add_shapes(made, &options->shapes);
  add_sizes(made, &options->sizes);
  add_limits(made, &options->limits);
  return {made, [options] { return tune(*options); }, &options->json};
}

}  // namespace fettle::cli
