// The recognition model of PP-OCRv4, from the file to the library, against ONNX Runtime and OpenVINO: how far from their
// outputs, how fast untuned and tuned, how soon, how large.
//
// It starts the program `fettle` beside it for everything but the timing, which interleaves the libraries that fettle made
// with the other engines.

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "driver/bench.h"
#include "harness/paired.h"
#include "harness/report.h"
#include "runtime/npy.h"

extern char** environ;

namespace fs = std::filesystem;
using namespace fettle;
using namespace fettle::bench;

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Options {
  std::string model = "build/models/ppocrv4_rec.onnx";
  std::string shape = "x=1,3,48,320";
  std::string tuning_time = "60s";
  std::string out = "build/bench";
  std::string untuned, tuned;   // libraries that are there already: only the table is made
  int threads = 2;
  double timing_s = 15;
  bool quiet = false;
};

/// Runs fettle, with no records and no caches but those in `home`; its words on standard error pass through unless quiet.
/// Returns the seconds it took. E401 where it failed.
Result<double> run_fettle(std::vector<std::string> args, const std::string& home, bool quiet) {
  std::error_code error;
  args.insert(args.begin(), (fs::read_symlink("/proc/self/exe", error).parent_path() / "fettle").string());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  std::vector<std::string> settings{"XDG_DATA_HOME=" + home, "XDG_CACHE_HOME=" + home};
  for (char** e = environ; *e; ++e)
    if (!std::string_view(*e).starts_with("XDG_")) settings.emplace_back(*e);
  std::vector<char*> env;
  for (std::string& setting : settings) env.push_back(setting.data());
  env.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  if (quiet) posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const auto begin = std::chrono::steady_clock::now();
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, args[0].c_str(), &actions, nullptr, argv.data(), env.data()) == 0) waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0) return fail(ErrorCode::E401, "fettle " + args[1] + " failed");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// What a library is loaded beside: names in its dynamic section, as ldd lists them.
std::set<std::string> needed_libraries(const std::string& library) {
  std::set<std::string> names;
  FILE* pipe = popen(("ldd '" + library + "'").c_str(), "r");
  if (!pipe) return names;
  char line[1024];
  while (fgets(line, sizeof line, pipe)) {
    std::string text(line);
    text = text.substr(text.find_first_not_of(" \t"));
    const std::string name = fs::path(text.substr(0, text.find(' '))).filename().string();
    if (!name.starts_with("linux-vdso") && !name.starts_with("ld-linux")) names.insert(name);
  }
  pclose(pipe);
  return names;
}

int64_t anonymous_bytes() {
  std::ifstream lines("/proc/self/smaps_rollup");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("Anonymous:")) return std::atoll(line.substr(10).c_str()) * 1024;
  return -1;
}

struct Times {
  Estimate untuned, tuned, onnxruntime, openvino;  // ns
  double untuned_over_best = kNone, tuned_over_best = kNone;
  double difference = kNone;  // of scale, the larger of both libraries', from ONNX Runtime
  double extra_bytes = kNone; // of anonymous memory beyond the arena
};

Result<Times> time_libraries(const Options& options, const std::string& untuned_path, const std::string& tuned_path,
                             const std::string& folder) {
  Times times;
  FettleOptions run{};
  run.threads = options.threads;
  FETTLE_TRY(Model untuned, Model::load(untuned_path, run));
  FETTLE_TRY(const std::vector<NamedTensor> inputs, random_inputs(untuned, 1));
  FETTLE_TRY(std::vector<NamedTensor> untuned_outputs, untuned.run(inputs));
  FETTLE_TRY(std::vector<NamedTensor> tuned_outputs, untuned.make_outputs());
  const int64_t before = anonymous_bytes();
  FETTLE_TRY(Model tuned, Model::load(tuned_path, run));
  FETTLE_TRY_VOID(tuned.run_into(inputs, tuned_outputs));
  times.extra_bytes = static_cast<double>(anonymous_bytes() - before - tuned.info().arena_bytes);

  FETTLE_TRY(ModelPeer onnxruntime, start_peer("onnxruntime", options.model, options.threads, inputs, folder));
  FETTLE_TRY(ModelPeer openvino, start_peer("openvino", options.model, options.threads, inputs, folder));
  FETTLE_TRY(const std::vector<PeerTensor> expected, onnxruntime.outputs(folder));
  times.difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    FETTLE_TRY(const Tensor reference, read_npy(expected[i].file));
    for (const auto* outputs : {&untuned_outputs, &tuned_outputs})
      times.difference = std::max(times.difference, difference_of_scale((*outputs)[i].tensor, reference));
  }

  const auto contender = [](const char* name, Model& model, const std::vector<NamedTensor>& in,
                            std::vector<NamedTensor>& out) {
    return Contender{.name = name, .run = [&] { (void)model.run_into(in, out); }};
  };
  const auto peer = [](ModelPeer& engine) {
    return Contender{.name = engine.name(), .run = {}, .timed = [&](int runs) { return engine.mean_time_ns(runs); }};
  };
  const Contender contenders[] = {contender("untuned", untuned, inputs, untuned_outputs),
                                  contender("tuned", tuned, inputs, tuned_outputs), peer(onnxruntime), peer(openvino)};
  PeakMeter peak(options.threads);
  FETTLE_TRY(const PairedResult result,
             time_paired(contenders, peak, {.batch_ns = 3e7, .time_limit_s = options.timing_s}));
  times.untuned = result.time_ns(0);
  times.tuned = result.time_ns(1);
  times.onnxruntime = result.time_ns(2);
  times.openvino = result.time_ns(3);
  const size_t best = times.onnxruntime.median < times.openvino.median ? 2 : 3;
  times.untuned_over_best = result.speed_over(best, 0).median;
  times.tuned_over_best = result.speed_over(best, 1).median;
  return times;
}

std::string table(const Options& options, const Times& times) {
  std::string text = fmt::format("{}, {} threads; every row interleaved in one run\n\n{:<14} {:>10} {:>12} {:>10}\n",
                                 fs::path(options.model).filename().string(), options.threads, "", "median ms",
                                 "fastest ms", "speed-up");
  const double base = times.untuned.median;
  const auto row = [&](const char* name, const Estimate& time) {
    text += fmt::format("{:<14} {:>10.2f} {:>12.2f} {:>9.2f}x\n", name, time.median * 1e-6, time.min * 1e-6,
                        base / time.median);
  };
  row("untuned", times.untuned);
  row("tuned", times.tuned);
  row("ONNX Runtime", times.onnxruntime);
  row("OpenVINO", times.openvino);
  const double best = std::min(times.onnxruntime.median, times.openvino.median);
  text += fmt::format("\ntuned over the faster of both engines: {:.2f} of its time\n", times.tuned.median / best);
  text += fmt::format("largest difference from ONNX Runtime's output: {:.1e} of its scale\n", times.difference);
  return text;
}

Result<bool> bench_recognition(const Options& options, const std::string& folder) {
  const std::string untuned = options.untuned.empty() ? folder + "/untuned.so" : options.untuned;
  const std::string tuned = options.tuned.empty() ? folder + "/tuned.so" : options.tuned;
  if (!options.tuned.empty()) {
    FETTLE_TRY(const Times times, time_libraries(options, untuned, tuned, folder));
    fmt::print("{}", table(options, times));
    return true;
  }
  const std::string threads = std::to_string(options.threads);

  const std::string name = options.shape.substr(0, options.shape.find('='));
  std::vector<int64_t> dims;
  for (const std::string& dim : CLI::detail::split(options.shape.substr(name.size() + 1), ','))
    dims.push_back(std::atoll(dim.c_str()));
  FETTLE_TRY(Tensor x, Tensor::make(FETTLE_F32, dims));
  FETTLE_TRY_VOID(write_npy(folder + "/x.npy", x));
  double first_s = kNone;
  for (int i = 0; i < 3; ++i) {  // each with caches of its own, so each cold
    const std::string home = fmt::format("{}/cold{}", folder, i);
    FETTLE_TRY(const double seconds,
               run_fettle({"run", options.model, "--input", name + "=" + folder + "/x.npy", "--output-dir",
                           folder + "/outputs", "--threads", threads}, home, options.quiet));
    first_s = std::isnan(first_s) ? seconds : std::min(first_s, seconds);
  }

  const std::string home = folder + "/home", db = folder + "/records.db";
  FETTLE_TRY_VOID(run_fettle({"compile", options.model, "--shape", options.shape, "--threads", threads, "--untuned", "-o",
                              untuned}, home, options.quiet));
  FETTLE_TRY_VOID(run_fettle({"tune", options.model, "--shape", options.shape, "--threads", threads, "--db", db, "--time",
                              options.tuning_time}, home, options.quiet));
  FETTLE_TRY_VOID(run_fettle({"compile", options.model, "--shape", options.shape, "--threads", threads, "--db", db, "-o",
                              tuned}, home, options.quiet));
  FETTLE_TRY(const Times times, time_libraries(options, untuned, tuned, folder));
  fmt::print("{}\n", table(options, times));

  Report report("model");
  report.add("output against ONNX Runtime", times.difference, "of scale", at_most(1e-4));
  report.add("untuned over the better of both", times.untuned_over_best, "of its time", at_most(1.7));
  report.add("tuned " + options.tuning_time + " over the better of both", times.tuned_over_best, "of its time",
             at_most(1.3));
  report.add("untuned", times.untuned.median * 1e-6, "ms");
  report.add("tuned", times.tuned.median * 1e-6, "ms");
  report.add("ONNX Runtime", times.onnxruntime.median * 1e-6, "ms");
  report.add("OpenVINO", times.openvino.median * 1e-6, "ms");
  report.add("file to first output, untuned, cold", first_s, "s", at_most(3));
  const std::set<std::string> needed = needed_libraries(tuned);
  report.add("libraries that OUT.so needs besides libc",
             static_cast<double>(needed.size() - needed.count("libc.so.6")), "", at_most(0));
  report.add("anonymous memory beyond the arena", times.extra_bytes / (1 << 20), "MiB", at_most(8));
  fmt::print("{}", report.table());
  FETTLE_TRY_VOID(report.write(options.out));
  return report.all_hold();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("A whole model against ONNX Runtime and OpenVINO, interleaved. Exits with 1 if a figure misses its bound.");
  app.add_option("--model", options.model)->capture_default_str();
  app.add_option("--shape", options.shape, "of its input")->capture_default_str();
  app.add_option("--threads", options.threads)->capture_default_str();
  app.add_option("--tuning", options.tuning_time, "how long to tune")->capture_default_str();
  app.add_option("--timing", options.timing_s, "seconds of timing")->capture_default_str();
  app.add_option("--out", options.out, "folder of model.json")->capture_default_str();
  auto* untuned = app.add_option("--untuned", options.untuned, "a library compiled before, with --tuned: print its row only");
  auto* tuned = app.add_option("--tuned", options.tuned, "another, tuned");
  untuned->needs(tuned);
  tuned->needs(untuned);
  app.add_flag("--quiet", options.quiet, "no progress on standard error");
  CLI11_PARSE(app, argc, argv);
  std::string folder = (fs::temp_directory_path() / "fettle-model-XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    fmt::print(stderr, "no temporary folder can be made\n");
    return 1;
  }
  const Result<bool> done = bench_recognition(options, folder);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  if (!done) fmt::print(stderr, "{}\n", done.error().to_string());
  return done && *done ? 0 : 1;
}
