// The recognition model of PP-OCRv4, from the file to the library, against ONNX Runtime and OpenVINO: how far from
// their outputs, how fast untuned and tuned, how soon, how large.
//
// It starts the program `fettle` beside it for everything but the timing, which interleaves the libraries that fettle
// made with the other engines.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "driver/bench.h"
#include "harness/report.h"
#include "harness/verdict.h"
#include "models/program.h"
#include "models/timing.h"

namespace fs = std::filesystem;
using namespace fettle;
using namespace fettle::bench;

namespace {

struct Options {
  std::string model = "build/models/ppocrv4_rec.onnx";
  std::string shape = "x=1,3,48,320";
  std::string tuning_time = "60s";
  std::string out = "build/bench";
  std::string untuned, tuned;  // libraries that are there already: only the table is made
  int threads = 2;
  double timing_s = 15;
  bool quiet = false;
};

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

Result<ModelTimes> time_on_random_inputs(const Options& options, const std::string& untuned, const std::string& tuned,
                                         const std::string& folder) {
  FETTLE_TRY(const Model model, Model::load(untuned));
  FETTLE_TRY(const std::vector<NamedTensor> inputs, random_inputs(model, 1));
  return time_libraries({.model = options.model, .untuned = untuned, .tuned = tuned, .threads = options.threads},
                        inputs, options.timing_s, folder);
}

std::string table(const Options& options, const ModelTimes& times) {
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
  text += "\n" + tuning_verdict(times.tuned_over_untuned) + "\n";
  text += fmt::format("tuned over the faster of both engines: {:.2f} of its time\n", times.tuned.median / best);
  text += fmt::format("largest difference from ONNX Runtime's output: {:.1e} of its scale\n", times.difference);
  return text;
}

Result<bool> bench_recognition(const Options& options, const std::string& folder) {
  const std::string untuned = options.untuned.empty() ? folder + "/untuned.so" : options.untuned;
  const std::string tuned = options.tuned.empty() ? folder + "/tuned.so" : options.tuned;
  if (!options.tuned.empty()) {
    FETTLE_TRY(const ModelTimes times, time_on_random_inputs(options, untuned, tuned, folder));
    fmt::print("{}", table(options, times));
    return true;
  }
  const std::string threads = std::to_string(options.threads);

  const std::string name = options.shape.substr(0, options.shape.find('='));
  std::vector<int64_t> dims;
  for (const std::string& dim : CLI::detail::split(options.shape.substr(name.size() + 1), ','))
    dims.push_back(std::atoll(dim.c_str()));
  FETTLE_TRY(Tensor x, Tensor::make(FETTLE_F32, dims));
  std::vector<NamedTensor> first;
  first.push_back({name, std::move(x)});
  FETTLE_TRY(const double first_s,
             seconds_to_first_output(options.model, first, options.threads, folder, options.quiet));

  const std::string home = folder + "/home", db = folder + "/records.db";
  FETTLE_TRY_VOID(
      run_fettle({"compile", options.model, "--shape", options.shape, "--threads", threads, "--untuned", "-o", untuned},
                 home, options.quiet));
  FETTLE_TRY_VOID(run_fettle({"tune", options.model, "--shape", options.shape, "--threads", threads, "--db", db,
                              "--time", options.tuning_time},
                             home, options.quiet));
  FETTLE_TRY_VOID(
      run_fettle({"compile", options.model, "--shape", options.shape, "--threads", threads, "--db", db, "-o", tuned},
                 home, options.quiet));
  FETTLE_TRY(const ModelTimes times, time_on_random_inputs(options, untuned, tuned, folder));
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
  report.add("libraries that OUT.so needs besides libc", static_cast<double>(needed.size() - needed.count("libc.so.6")),
             "", at_most(0));
  report.add("anonymous memory beyond the arena", times.extra_bytes / (1 << 20), "MiB", at_most(8));
  fmt::print("{}", report.table());
  FETTLE_TRY_VOID(report.write(options.out));
  return report.all_hold();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "A whole model against ONNX Runtime and OpenVINO, interleaved. Exits with 1 if a figure misses its bound.");
  app.add_option("--model", options.model)->capture_default_str();
  app.add_option("--shape", options.shape, "of its input")->capture_default_str();
  app.add_option("--threads", options.threads)->capture_default_str();
  app.add_option("--tuning", options.tuning_time, "how long to tune")->capture_default_str();
  app.add_option("--timing", options.timing_s, "seconds of timing")->capture_default_str();
  app.add_option("--out", options.out, "folder of model.json")->capture_default_str();
  auto* untuned =
      app.add_option("--untuned", options.untuned, "a library compiled before, with --tuned: print its row only");
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
