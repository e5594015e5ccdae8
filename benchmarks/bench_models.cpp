// The models of benchmarks/models.json, each from its file to the library, against ONNX Runtime and OpenVINO: how far
// from their outputs, how fast untuned and tuned, in how much memory.
//
// What tuning found, and that it ended, stays in OUT/models/: an interrupted run goes on there.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "codegen/build.h"
#include "database/sqlite_database.h"
#include "harness/report.h"
#include "models/memory.h"
#include "models/program.h"
#include "models/table.h"
#include "models/timing.h"
#include "report/machine_peaks.h"
#include "report/run_report.h"

namespace fs = std::filesystem;
using namespace fettle;
using namespace fettle::bench;

namespace {

struct Options {
  std::set<std::string> only, skip;
  std::vector<int> threads{1, 2};
  std::string tuning_time = "150s", target = {};
  std::string out = "build/bench";
  double timing_s = 15;
  bool more = false, fresh = false, quiet = false;

  bool wants(const std::string& part) const { return !skip.contains(part); }
};

/// Where one model on so many threads keeps what it makes: OUT/models/NAME.THREADS.ENDING.
std::string kept(const Options& options, const TableModel& model, int threads, const std::string& ending) {
  const std::string target = options.target.empty() ? "" : options.target + ".";
  return fmt::format("{}/models/{}.{}.{}{}", options.out, model.name, threads, target, ending);
}

std::string database_of(const Options& options, const TableModel& model) {
  return fmt::format("{}/models/{}.db", options.out, model.name);
}

std::string row_of(const TableModel& model, int threads, const char* what) {
  return fmt::format("{}, {} thread{}, {}", model.name, threads, threads == 1 ? "" : "s", what);
}

/// The machine's peaks when it was fastest, of several measurements: others may use it.
Result<> see_peaks(int threads, MachinePeaks& best) {
  FETTLE_TRY(MachinePeaks seen, measure_peaks(detect_host(threads)));
  if (seen.fp32.one_thread > best.fp32.one_thread) best = std::move(seen);
  return {};
}

/// The least seconds that the kernels of the newest tuning run allow, of this target and threads, all calls together.
Result<double> least_seconds(const Options& options, const std::string& database_file, int threads,
                             const MachinePeaks& peaks) {
  FETTLE_TRY(const std::unique_ptr<Database> database, open_sqlite_database(database_file));
  Target target = detect_host(threads);
  if (!options.target.empty()) {
    const std::vector<CacheLevel> caches = target.caches;
    FETTLE_TRY(target, parse_target(options.target));
    target.caches = caches;  // this machine's
  }
  FETTLE_TRY(std::vector<TuningRun> runs, database->runs());
  std::erase_if(runs, [&](const TuningRun& run) {
    return run.threads != threads || run.target_features != target.feature_key();
  });
  if (runs.empty()) return fail(ErrorCode::E709, "there is no tuning run of these threads and target", database_file);
  FETTLE_TRY(const RunReport report, report_run(*database, runs.back(), target, &peaks));
  double seconds = 0;
  for (const ReportedTask& task : report.tasks) seconds += task.task.weight * task.limit.seconds;
  return seconds;
}

Result<> compile(const Options& options, const TableModel& model, int threads, const std::vector<std::string>& how,
                 const std::string& library) {
  std::vector<std::string> args{"compile", model.file, "--threads", std::to_string(threads), "-o", library};
  args.insert(args.end(), how.begin(), how.end());
  if (!options.target.empty()) args.insert(args.end(), {"--target", options.target});
  const std::vector<std::string> shapes = shape_arguments(model.shapes());
  args.insert(args.end(), shapes.begin(), shapes.end());
  FETTLE_TRY_VOID(run_fettle(args, options.out + "/models/home", options.quiet));
  return {};
}

/// Tunes unless that was done before, for as long as it shall take now and by a compiler that makes the same of traces;
/// the note says both.
Result<> tune(const Options& options, const TableModel& model, int threads, const std::string& database) {
  const std::string note = kept(options, model, threads, "tuned");
  std::string before;
  std::getline(std::ifstream(note), before);
  const std::string wanted = options.tuning_time + ", " + program_versions();
  if (before == wanted) return {};
  std::vector<std::string> args{"tune", model.file, "--threads", std::to_string(threads),
                                "--db", database,   "--time",    options.tuning_time};
  if (!options.target.empty()) args.insert(args.end(), {"--target", options.target});
  const std::vector<std::string> shapes = shape_arguments(model.shapes());
  args.insert(args.end(), shapes.begin(), shapes.end());
  FETTLE_TRY_VOID(run_fettle(args, options.out + "/models/home", options.quiet));
  std::ofstream(note) << wanted << "\n";
  return {};
}

/// Everything of one model on so many threads, with rows for it. `folder` is temporary.
Result<ModelTimes> bench(const Options& options, const TableModel& model, int threads, const std::string& folder,
                         Report& report) {
  const auto row = [&](const char* what) { return row_of(model, threads, what); };
  const std::string database = database_of(options, model);
  ModelLibraries libraries{
      .model = model.file, .untuned = kept(options, model, threads, "untuned.so"), .tuned = {}, .threads = threads};
  FETTLE_TRY_VOID(compile(options, model, threads, {"--untuned"}, libraries.untuned));
  if (options.wants("tuned")) {
    FETTLE_TRY_VOID(tune(options, model, threads, database));
    libraries.tuned = kept(options, model, threads, "tuned.so");
    FETTLE_TRY_VOID(compile(options, model, threads, {"--db", database}, libraries.tuned));
  }
  FETTLE_TRY(const Model loaded, Model::load(libraries.untuned));
  FETTLE_TRY(const std::vector<NamedTensor> inputs, table_inputs(model, loaded, 1));

  if (options.wants("memory")) {
    FETTLE_TRY(const PeakMemory peak,
               measure_peak_memory(libraries.tuned.empty() ? libraries.untuned : libraries.tuned, model.file, threads,
                                   inputs, loaded.outputs().size(), folder));
    constexpr double kMebi = 1 << 20;
    report.add(row("peak memory"), peak.fettle_bytes / kMebi, "MiB");
    report.add(row("peak memory, ONNX Runtime"), peak.onnxruntime_bytes / kMebi, "MiB");
    report.add(row("peak memory over ONNX Runtime's"), peak.fettle_bytes / peak.onnxruntime_bytes, "of it",
               at_most(1.2));
  }
  FETTLE_TRY(const ModelTimes times, time_libraries(libraries, inputs, options.timing_s, folder));
  report.add(row("output against ONNX Runtime"), times.difference, "of scale", at_most(1e-4));
  report.add(row("time outside kernels"), 100 * times.outside_kernels, "%", at_most(3));
  const auto add_times = [&](const std::string& name, const Estimate& time) {
    report.add(row((name + ", median").c_str()), time.median * 1e-6, "ms");
    report.add(row((name + ", fastest").c_str()), time.min * 1e-6, "ms");
  };
  add_times("untuned", times.untuned);
  if (!libraries.tuned.empty()) add_times("tuned", times.tuned);
  add_times("ONNX Runtime", times.onnxruntime);
  add_times("OpenVINO", times.openvino);
  report.add(row("untuned over the better of both"), times.untuned_over_best, "of its time");
  if (!libraries.tuned.empty())
    report.add(row("tuned over the better of both"), times.tuned_over_best, "of its time", at_most(0.95));
  return times;
}

/// What the machine allows all kernels of each tuned model, of what it took. by_threads: of each model.
Result<> add_shares(const Options& options, const std::vector<TableModel>& models,
                    const std::vector<std::vector<ModelTimes>>& by_threads, const MachinePeaks& peaks, Report& report) {
  for (size_t m = 0; m < models.size(); ++m)
    for (size_t t = 0; t < options.threads.size(); ++t) {
      const int threads = options.threads[t];
      FETTLE_TRY(const double least, least_seconds(options, database_of(options, models[m]), threads, peaks));
      report.add(row_of(models[m], threads, "least times of its kernels over its fastest time"),
                 100 * least / (by_threads[t][m].tuned.min * 1e-9), "%", at_least(85));
    }
  return {};
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

/// The figures of all models together.
void summarise(const Options& options, int threads, const std::vector<ModelTimes>& all, Report& report) {
  std::vector<double> untuned, tuned;
  for (const ModelTimes& times : all) {
    untuned.push_back(times.untuned_over_best);
    tuned.push_back(times.tuned_over_best);
  }
  const auto row = [&](const char* what) {
    return fmt::format("{} models, {} thread{}, {}", all.size(), threads, threads == 1 ? "" : "s", what);
  };
  report.add(row("untuned over the better of both, geometric mean"), geometric_mean(untuned), "of its time",
             at_most(1.25));
  if (!options.wants("tuned")) return;
  report.add(row("tuned over the better of both, geometric mean"), geometric_mean(tuned), "of its time",
             at_most(threads == 1 ? 0.78 : 0.74));
  report.add(row("tuned over the better of both, worst"), *std::ranges::max_element(tuned), "of its time",
             at_most(0.95));
}

/// Until ResNet-50's first output is there, from nothing.
Result<> bench_first_output(const Options& options, const TableModel& model, const std::string& folder,
                            Report& report) {
  const int threads = *std::ranges::max_element(options.threads);
  const std::string library = kept(options, model, threads, "untuned.so");
  FETTLE_TRY(const Model loaded, Model::load(library));
  FETTLE_TRY(const std::vector<NamedTensor> inputs, table_inputs(model, loaded, 1));
  FETTLE_TRY(const double seconds, seconds_to_first_output(model.file, inputs, threads, folder, options.quiet));
  report.add(fmt::format("{}, file to first output, untuned, cold", model.name), seconds, "s", at_most(2));
  return {};
}

/// Those of the names given, else all; of both lists where asked.
Result<std::vector<TableModel>> chosen(const Options& options) {
  FETTLE_TRY(std::vector<TableModel> models, read_model_table());
  FETTLE_TRY(std::vector<TableModel> more, read_model_table("more"));
  if (options.more || !options.only.empty()) std::ranges::move(more, std::back_inserter(models));
  if (!options.only.empty()) std::erase_if(models, [&](const TableModel& m) { return !options.only.contains(m.name); });
  if (models.empty()) return fail(ErrorCode::E709, "the table has no model of these names", "--only");
  return models;
}

Result<bool> bench_all(const Options& options, const std::string& folder) {
  if (options.fresh) fs::remove_all(options.out + "/models");
  fs::create_directories(options.out + "/models");
  FETTLE_TRY(const std::vector<TableModel> models, chosen(options));

  const int most_threads = *std::ranges::max_element(options.threads);
  MachinePeaks peaks;
  Report report("models");
  std::vector<std::vector<ModelTimes>> by_threads(options.threads.size());
  for (const TableModel& model : models) {
    for (size_t t = 0; t < options.threads.size(); ++t) {
      fmt::print(stderr, "{} ({}), {} threads\n", model.name, model.what, options.threads[t]);
      FETTLE_TRY_VOID(see_peaks(most_threads, peaks));
      FETTLE_TRY(const ModelTimes times, bench(options, model, options.threads[t], folder, report));
      by_threads[t].push_back(times);
      FETTLE_TRY_VOID(report.write(options.out));  // what is known so far, if this is the last
    }
    if (model.name == "resnet50" && options.wants("cold"))
      FETTLE_TRY_VOID(bench_first_output(options, model, folder, report));
  }
  if (options.wants("tuned")) FETTLE_TRY_VOID(add_shares(options, models, by_threads, peaks, report));
  for (size_t t = 0; t < options.threads.size(); ++t) summarise(options, options.threads[t], by_threads[t], report);
  fmt::print("{}", report.table());
  FETTLE_TRY_VOID(report.write(options.out));
  return report.all_hold();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> only, skip;
  CLI::App app("All models against ONNX Runtime and OpenVINO, interleaved. Exits with 1 if a figure misses its bound.");
  app.add_option("--only", only, "models by name, separated by commas")->delimiter(',');
  app.add_option("--skip", skip, "parts to leave out")
      ->delimiter(',')
      ->check(CLI::IsMember({"tuned", "memory", "cold"}));
  app.add_option("--threads", options.threads, "each a run of its own")->delimiter(',')->capture_default_str();
  app.add_option("--tuning", options.tuning_time, "how long to tune each model for each number of threads")
      ->capture_default_str();
  app.add_option("--target", options.target, "a processor to compile for, as fettle compile has it")
      ->capture_default_str();
  app.add_option("--timing", options.timing_s, "seconds of timing each")->capture_default_str();
  app.add_option("--out", options.out, "folder of models.json, and of what tuning found")->capture_default_str();
  app.add_flag("--more", options.more, "also the models that `make_models.py --more` makes; --only knows them without");
  app.add_flag("--fresh", options.fresh, "forget what earlier runs found");
  app.add_flag("--quiet", options.quiet, "no progress of tuning and compiling");
  CLI11_PARSE(app, argc, argv);
  options.only.insert(only.begin(), only.end());
  options.skip.insert(skip.begin(), skip.end());
  std::string folder = (fs::temp_directory_path() / "fettle-models-XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    fmt::print(stderr, "no temporary folder can be made\n");
    return 1;
  }
  const Result<bool> done = bench_all(options, folder);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  if (!done) fmt::print(stderr, "{}\n", done.error().to_string());
  return done && *done ? 0 : 1;
}
