// The candidates benchmark: how fast points of a space become candidates that a search can rank, on one core.

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "candidates/subjects.h"
#include "generations/registry.h"
#include "schedule/subjects.h"

using namespace fettle::bench;

int main(int argc, char** argv) {
  CandidateBenchOptions options;
  std::string out = "build/bench";
  CLI::App app("Candidates a second and core, and what each costs. Exits with 1 if a figure misses its bound.");
  app.add_option("--only", options.only, "only workloads whose name contains this");
  app.add_option("--space", options.space, "one space alone: rules or sketches");
  app.add_option("--timing", options.seconds, "seconds for each workload and space")->capture_default_str();
  app.add_option("--many", options.many, "candidates made for the figures of memory")->capture_default_str();
  app.add_option("--most", options.most, "so many candidates of each workload, however long they take");
  app.add_option("--cost-model", options.cost_model, "describe candidates as this one wants them")
      ->check([](const std::string& name) { return fettle::find_cost_model(name) ? "" : "no cost model " + name; });
  app.add_option("--list", options.list, "a file for all that is known of each candidate");
  app.add_option("--out", out, "folder of candidates.json")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  Report report("candidates");
  const auto save = [&] { return report.write(out); };
  if (std::string("replay").find(options.only) != std::string::npos) add_replay(report, {.seconds = options.seconds});
  const auto done = add_candidates(report, options, save);
  fmt::print("{}", report.table());
  if (!done) {
    fmt::print(stderr, "{}\n", done.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}
