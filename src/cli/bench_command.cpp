#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "driver/bench.h"
#include "driver/open.h"
#include "driver/streams.h"

namespace fettle::cli {
namespace {

struct Options {
  ModelFile model;
  std::string target, database, seconds_text = "3";
  std::vector<std::string> against;
  int threads = 0, streams = 0;
  uint64_t seed = 0;
  InputShapes shapes;
  Limits limits;
  bool profile = false, pin = false, keep_denormals = false, json = false;
};

/// A folder that is removed when the benchmark ends.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make() {
    std::string path = (std::filesystem::temp_directory_path() / "fettle-bench-XXXXXX").string();
    if (!mkdtemp(path.data())) return fail(ErrorCode::E702, "no temporary folder can be made", path);
    return TemporaryFolder(std::move(path));
  }
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

nlohmann::json to_json(const Latency& latency) {
  return {{"min", latency.min_ms}, {"median", latency.median_ms}, {"runs", latency.runs}};
}

nlohmann::json to_json(const StreamTimes& times) {
  return {{"runs", times.runs},        {"runs_per_second", times.runs_per_second},
          {"median", times.median_ms}, {"p90", times.p90_ms},
          {"p99", times.p99_ms},       {"max", times.max_ms}};
}

/// One stream and several, on one model.
Result<Report> bench_streams(const Options& options, const Model& model, const std::vector<NamedTensor>& inputs,
                             int threads, double seconds) {
  Report report;
  report.json = {{"model", options.model.path}, {"threads", threads}, {"streams", nlohmann::json::array()}};
  report.text = fmt::format("{:<14} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "", "runs/s", "median ms", "90 % ms",
                            "99 % ms", "max ms");
  const std::vector<int> counts = options.streams == 1 ? std::vector{1} : std::vector{1, options.streams};
  for (const int streams : counts) {
    FETTLE_TRY(const StreamTimes times,
               time_streams(model, inputs, streams, seconds / static_cast<double>(counts.size())));
    nlohmann::json made = to_json(times);
    made["streams"] = streams;
    report.json["streams"].push_back(std::move(made));
    report.text += fmt::format("{:<14} {:>10.2f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f}\n",
                               fmt::format("{} stream{}", streams, streams == 1 ? "" : "s"), times.runs_per_second,
                               times.median_ms, times.p90_ms, times.p99_ms, times.max_ms);
  }
  return report;
}

Result<Report> bench_model(const Options& options) {
  double seconds = 0;
  if (!parse_seconds(options.seconds_text, &seconds))
    return fail(ErrorCode::E709, "'" + options.seconds_text + "' is no duration such as 10s", "--time");
  if (!options.against.empty() && is_library_path(options.model.path))
    return fail(ErrorCode::E709, "other engines need the ONNX file, not a compiled model", "--against");
  // A library says itself how many calls at once it was made for.
  const int streams = is_library_path(options.model.path) ? 0 : options.streams;
  FETTLE_TRY(const Model model, open_model(options.model, {.threads = options.threads,
                                                           .streams = streams,
                                                           .target = options.target,
                                                           .shapes = options.shapes,
                                                           .database = database_to_read(options.database),
                                                           .warn = progress,
                                                           .pin = options.pin,
                                                           .keep_denormals = options.keep_denormals,
                                                           .limits = options.limits}));
  FETTLE_TRY(const std::vector<NamedTensor> inputs, random_inputs(model, options.seed, options.shapes));
  const int threads = options.threads > 0 ? options.threads : model.info().default_threads;
  if (options.streams > 0) return bench_streams(options, model, inputs, threads, seconds);
  FETTLE_TRY(ModelContext context, model.make_context());

  FETTLE_TRY(const TemporaryFolder folder, TemporaryFolder::make());
  std::vector<bench::ModelPeer> peers;
  for (const std::string& name : options.against) {
    FETTLE_TRY(bench::ModelPeer peer, start_peer(name, options.model.path, threads, inputs, folder.path()));
    peers.push_back(std::move(peer));
  }
  std::vector<TimedWork> works{timed_model("fettle", context, inputs)};
  for (bench::ModelPeer& peer : peers) works.push_back(timed_peer(peer));
  FETTLE_TRY(const std::vector<Latency> latencies, time_interleaved(works, {.seconds = seconds}));

  Report report;
  report.json = {{"model", options.model.path}, {"threads", threads}, {"latency_ms", to_json(latencies[0])}};
  report.text = fmt::format("{:<14} {:>10} {:>10} {:>6}\n", "", "min ms", "median ms", "runs");
  for (const Latency& latency : latencies)
    report.text += fmt::format("{:<14} {:>10.3f} {:>10.3f} {:>6}\n", latency.name, latency.min_ms, latency.median_ms,
                               latency.runs);
  for (size_t i = 1; i < latencies.size(); ++i) report.json["against"][latencies[i].name] = to_json(latencies[i]);

  if (options.profile) {
    std::string table;
    FETTLE_TRY(const std::vector<KernelTime> times, profile_model(context, inputs, 20, &table));
    report.text += "\n" + fitting_lines(table);
    report.json["profile"] = nlohmann::json::array();
    for (const KernelTime& kernel : times)
      report.json["profile"].push_back({{"kernel", kernel.name},
                                        {"nodes", origins_json(kernel.origins)},
                                        {"calls", kernel.calls},
                                        {"total_ns", kernel.total_ns},
                                        {"min_ns", kernel.min_ns}});
  }
  return report;
}

}  // namespace

Command add_bench_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "bench", "Time a model, alone or interleaved with other engines",
                             "fettle bench model.onnx --against onnxruntime,openvino --profile", &options->json);
  add_model(made, &options->model, true);
  made->add_option("--db", options->database, "records of tuning, of a model that is not compiled yet")
      ->type_name("FILE");
  made->add_option("--time", options->seconds_text, "how long to time, in all")
      ->capture_default_str()
      ->type_name("TIME");
  auto* against = made->add_option("--against", options->against, "other engines, timed in the same run")
                      ->delimiter(',')
                      ->one_of({"onnxruntime", "openvino"})
                      ->type_name("onnxruntime,openvino");
  made->add_option("--seed", options->seed, "of the random inputs")->capture_default_str();
  auto* profile = made->add_flag("--profile", options->profile, "also the time of each kernel");
  made->add_option(
          "--streams", options->streams,
          "so many calls at once, each in a context of its own, for which a model file is compiled, as by compile "
          "--streams: runs in a second, and how long one takes; beside one call at a time")
      ->between(1, 256)
      ->excludes(against)
      ->excludes(profile);
  add_threads(made, &options->threads);
  add_target(made, &options->target);
  add_run_options(made, &options->pin, &options->keep_denormals);
  add_shapes(made, &options->shapes);
  add_limits(made, &options->limits);
  return {made, [options] { return bench_model(*options); }, &options->json};
}

}  // namespace fettle::cli
