#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "cli/command.h"
#include "cli/report/comparison_text.h"
#include "cli/report/report_page.h"
#include "driver/open.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string reported, out, compare;
  ModelFile model;
  int run = 0, compare_run = 0;
  InputShapes shapes;
  OpenSizes sizes;
  bool json = false;
};

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

/// The tasks of a model as it is now, for a database that has no runs of it: their weights, calls and nodes.
void take_tasks(TuningRun& run, const CompiledModel& compiled) {
  std::vector<RunTask> tasks;
  for (const TaskInfo& info : compiled.tasks()) {
    RunTask task{{info.workload, {}}, info.name + " " + info.hash.substr(0, 8), static_cast<double>(info.count), {}};
    if (auto workload = parse_workload(info.workload)) task.workload = std::move(*workload);
    for (const TaskCall& call : info.calls) task.calls.push_back({call.name, one_a_line(call.provenance)});
    tasks.push_back(std::move(task));
  }
  run.tasks = std::move(tasks);
}

/// Refuses a model that has nothing to do with the run, and says where it has little.
Result<> check_model(const TuningRun& run, const CompiledModel& compiled, const std::string& path) {
  std::set<std::string> known;
  for (const TaskInfo& info : compiled.tasks()) known.insert(info.hash);
  const auto found = static_cast<size_t>(std::count_if(run.tasks.begin(), run.tasks.end(), [&](const RunTask& task) {
    return known.contains(task.workload.hash.hex());
  }));
  if (found == 0)
    return fail(
        ErrorCode::E709,
        fmt::format("none of the {} tasks of the run of \"{}\" occur in {}: give the model that was tuned, with the "
                    "same --shape, or leave it out",
                    run.tasks.size(), run.model, path),
        "model");
  if (found < run.tasks.size())
    progress(
        fmt::format("{} of the {} tasks of the run of \"{}\" occur in {}; the others have no times inside the model",
                    found, run.tasks.size(), run.model, path));
  return {};
}

nlohmann::json describe(const ReportedTask& task) {
  return {{"label", task.task.label},
          {"weight", task.task.weight},
          {"trials", task.trials},
          {"failed", task.failed},
          {"default_us", task.default_s * 1e6},
          {"best_us", task.best_s * 1e6},
          {"limit_us", task.limit.seconds * 1e6},
          {"limit", task.limit.by}};
}

/// What both files are called; where they are called alike, how they differ.
void name_both(ReportContent& content, const Options& options) {
  const std::string& other = options.compare.empty() ? options.reported : options.compare;
  content.name = stem(options.reported);
  content.before_name = stem(other);
  if (content.name != content.before_name) return;
  content.name = other == options.reported ? "this run" : options.reported;
  content.before_name = other == options.reported ? fmt::format("run {}", options.compare_run) : other;
}

/// The page, where one is asked for, and the table for the terminal.
Result<Report> finish(const ReportContent& content, const Options& options, Report result) {
  if (!options.out.empty()) {
    FETTLE_TRY_VOID(write_report_page(content, options.out));
    result.json["file"] = options.out;
  }
  if (!content.before) return result;
  const Comparison compared = compare(*content.before, content.run);
  result.json["compared"] = comparison_json(compared);
  result.text = comparison_text(compared, content.before_name, content.name);
  if (!options.out.empty()) result.text += "\n" + options.out + "\n";
  return result;
}

/// Two compiled models.
Result<Report> compare_compiled(const Options& options) {
  if (!is_library_path(options.compare))
    return fail(ErrorCode::E709, "a compiled model is compared with another one (--compare BEFORE.so)", "--compare");
  if (!options.model.path.empty() || options.run > 0 || options.compare_run > 0)
    return fail(ErrorCode::E709, "compiled models have neither runs nor a model beside them", options.reported);
  const OpenOptions open{.shapes = options.shapes, .warn = progress};
  FETTLE_TRY(const Model before, open_model(options.compare, open));
  FETTLE_TRY(const Model after, open_model(options.reported, open));
  FETTLE_TRY(auto timed, time_compiled(before, after, options.shapes));
  ReportContent content;
  content.is_compiled = true;
  content.before = std::move(timed.first);
  content.run = std::move(timed.second);
  name_both(content, options);
  return finish(content, options, {.json = {{"model", content.run.run.model}}});
}

Result<Report> report(const Options& options) {
  const bool compares = !options.compare.empty() || options.compare_run > 0;
  if (options.out.empty() && !compares) return fail(ErrorCode::E709, "name the page that is to be written", "--output");
  if (is_library_path(options.reported)) return compare_compiled(options);
  FETTLE_TRY(const std::shared_ptr<Database> database, open_records(options.reported));
  const std::string model_name = options.model.path.empty() ? std::string() : fettle::model_name(options.model);
  FETTLE_TRY(TuningRun run, choose_run(*database, options.run, model_name));
  const Target target = host_of(run.fingerprint, run.threads).value_or(detect_host(run.threads));

  std::optional<CompiledModel> compiled;
  if (!options.model.path.empty()) {
    FETTLE_TRY(compiled, compile_source(options.model, {.threads = run.threads,
                                                        .streams = target.streams,
                                                        .shapes = options.shapes,
                                                        .database = options.reported,
                                                        .warn = progress,
                                                        .sizes = options.sizes}));
    if (run.id == 0)
      take_tasks(run, *compiled);
    else
      FETTLE_TRY_VOID(check_model(run, *compiled, options.model.path));
  }
  ReportContent content;
  FETTLE_TRY(content.peaks, peaks_for(*database, run, target));
  const MachinePeaks* peaks = content.peaks ? &*content.peaks : nullptr;
  FETTLE_TRY(content.run, report_run(*database, run, target, peaks));
  if (compiled && run.id == 0 && content.run.trials == 0)
    return fail(ErrorCode::E709, fmt::format("{} has no records of {}", options.reported, options.model.path), "model");
  if (compiled) FETTLE_TRY_VOID(add_model_times(content.run, *compiled));

  if (compares) {
    const std::string& file = options.compare.empty() ? options.reported : options.compare;
    FETTLE_TRY(const std::shared_ptr<Database> others, open_records(file));
    FETTLE_TRY(const TuningRun other, choose_run(*others, options.compare_run, run.model));
    const bool same_limits = other.fingerprint == run.fingerprint && other.threads == run.threads;
    FETTLE_TRY(content.before, report_run(*others, other, target, same_limits ? peaks : nullptr));
    name_both(content, options);
  }
  const RunReport& made = content.run;
  Report result;
  result.json = {{"database", options.reported},
                 {"model", run.model},
                 {"run", fmt::format("{:016x}", run.id)},
                 {"tasks", json_list(made.tasks, describe)},
                 {"trials", made.trials},
                 {"failed", made.failed},
                 {"estimated_ms", made.estimated_s * 1e3},
                 {"default_ms", made.default_s * 1e3}};
  result.text = fmt::format("{}: {}, {} tasks, {} candidates, estimated {:.3f} ms (untuned {:.3f} ms)\n", options.out,
                            run.model, made.tasks.size(), made.trials, made.estimated_s * 1e3, made.default_s * 1e3);
  return finish(content, options, std::move(result));
}

}  // namespace

Result<> write_tuning_report(const std::shared_ptr<Database>& database, const Graph& graph, const Target& target,
                             uint64_t run_id, const std::string& out) {
  FETTLE_TRY(const std::vector<TuningRun> runs, database->runs());
  const auto run = std::find_if(runs.begin(), runs.end(), [&](const TuningRun& r) { return r.id == run_id; });
  if (run == runs.end()) return fail(ErrorCode::E503, "the run is not in the database");
  ReportContent content;
  FETTLE_TRY(content.peaks, peaks_for(*database, *run, target));
  FETTLE_TRY(content.run, report_run(*database, *run, target, content.peaks ? &*content.peaks : nullptr));
  CompileOptions compile;
  compile.target = target;
  compile.threads = run->threads;
  compile.warn = progress;
  Plans plans(graph);
  FETTLE_TRY(const CompiledModel compiled, compile_known(plans, database, std::move(compile)));
  FETTLE_TRY_VOID(add_model_times(content.run, compiled));
  return write_report_page(content, out);
}

Command add_report_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "report", "Write what a tuning did as one HTML page, or compare two",
                             "fettle report records.db model.onnx -o report.html", &options->json);
  made->add_option("records", options->reported, "records of tuning; with --compare also a compiled model")
      ->required()
      ->type_name("DB|OUT.so");
  made->add_option("model", options->model.path, "its file: also times its kernels inside the model")
      ->type_name("MODEL");
  add_function(made, &options->model.function);
  made->add_option("-o,--output", options->out, "the page; with --compare it may be left out")->type_name("F.html");
  made->add_option("--run", options->run, "which run of the database, 1 for the oldest; default: the newest")
      ->between(1, 1 << 30);
  made->add_option("--compare", options->compare, "what was before: other records, or another compiled model")
      ->type_name("DB|OUT.so");
  made->add_option("--compare-run", options->compare_run,
                   "which run is compared; without --compare, one of the same records")
      ->between(1, 1 << 30);
  add_shapes(made, &options->shapes);
  add_sizes(made, &options->sizes);
  return {made, [options] { return report(*options); }, &options->json};
}

}  // namespace fettle::cli
