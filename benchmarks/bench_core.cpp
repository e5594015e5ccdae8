// The core benchmark: matrix products and convolutions against this machine's peak and oneDNN.

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core_subject.h"
#include "harness/core_benchmark.h"

using namespace fettle;
using namespace fettle::bench;

int main(int argc, char** argv) {
  CoreOptions options;
  std::string out = "build/bench";
  std::string skip;
  bool quiet = false;
  CLI::App app(
      "Kernels against the peak of this machine and oneDNN, interleaved. Exits with 1 if a figure misses its bound.");
  app.add_option("--only", options.only, "only shapes whose name contains this, e.g. 'GEMM 512'");
  app.add_option("--skip", skip,
                 "parts to leave out, separated by commas: hand, default, tuned, regret, compile, micro-kernels");
  app.add_option("--timing", options.timing_s, "seconds for each comparison")->capture_default_str();
  app.add_option("--tuning", options.tuning_s, "seconds of tuning for each shape")->capture_default_str();
  app.add_option("--candidates", options.candidates, "random candidates for each shape")->capture_default_str();
  app.add_option("--seed", options.seed, "of all that is drawn")->capture_default_str();
  app.add_option("--out", out, "folder of core.json")->capture_default_str();
  app.add_flag("--quiet", quiet, "no progress on standard error");
  CLI11_PARSE(app, argc, argv);
  options.progress = !quiet;

  CoreSubject subject = fettle_subject();
  const auto skipped = [&](const char* part) {
    return ("," + skip + ",").find(fmt::format(",{},", part)) != std::string::npos;
  };
  if (skipped("hand")) subject.hand = nullptr;
  if (skipped("default")) subject.untuned = nullptr;
  if (skipped("tuned")) subject.tune = nullptr;
  if (skipped("regret")) subject.candidates = nullptr;
  if (skipped("compile")) subject.compile = nullptr;
  if (skipped("micro-kernels")) subject.measure_micro_kernels = nullptr;

  fmt::print("oneDNN {}, vectors of {}\n", onednn_version(), peak_isa());
  const Report report = run_core_benchmark(subject, options);
  fmt::print("{}", report.table());
  if (const auto written = report.write(out); !written) {
    fmt::print(stderr, "{}\n", written.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}
