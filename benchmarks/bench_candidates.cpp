// The candidates benchmark: how fast points of a space become candidates that a search can rank, on one core.

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "candidates/subjects.h"
#include "schedule/subjects.h"

using namespace fettle::bench;

int main(int argc, char** argv) {
  CandidateBenchOptions options;
  std::string out = "build/bench";
  CLI::App app("Candidates a second and core, and what each costs. Exits with 1 if a figure misses its bound.");
  app.add_option("--only", options.only, "only workloads whose name contains this");
  app.add_option("--space", options.space, "one space alone: rules or sketches");
  app.add_option("--timing", options.seconds, "seconds for each workload")->capture_default_str();
  app.add_option("--many", options.many, "candidates made for the figures of memory")->capture_default_str();
  app.add_option("--out", out, "folder of candidates.json")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  Report report("candidates");
  if (std::string("replay").find(options.only) != std::string::npos) add_replay(report, {.seconds = options.seconds});
  add_candidates(report, options);
  fmt::print("{}", report.table());
  if (const auto written = report.write(out); !written) {
    fmt::print(stderr, "{}\n", written.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}
