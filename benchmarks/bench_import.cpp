// Large models: from the file to the optimised graph, and to a plan. The figures say how long it takes.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <ctime>

#include "frontend/onnx/import.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/plan.h"
#include "harness/report.h"
#include "import/large_models.h"

namespace {

using namespace fettle;
using namespace fettle::bench;

/// Of this process, which has one thread: what else the machine does takes no time here.
struct Stopwatch {
  std::clock_t begin = std::clock();
  double seconds() const { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; }
};

}  // namespace

int main(int argc, char** argv) {
  std::string out = "build/bench", only;
  double part = 1;
  bool plan = false, passes = false;
  CLI::App app("Large models: from the file to the optimised graph. Exits with 1 if a figure misses its bound.");
  app.add_option("--only", only, "only models whose name contains this");
  app.add_option("--part", part, "this part of the full sizes")->capture_default_str();
  app.add_flag("--plan", plan, "also plan them");
  app.add_flag("--passes", passes, "also say what each pass takes");
  app.add_option("--out", out, "folder of import.json")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  Report report("import");
  for (const LargeModel& model : large_models()) {
    if (model.name.find(only) == std::string::npos) continue;
    const std::string bytes = model.bytes(part);
    const Stopwatch watch;
    auto graph = import_onnx_bytes(std::as_bytes(std::span(bytes)), ".");
    if (model.is_refused && !graph) {
      report.add(model.name + ", refused", watch.seconds(), "s", at_most(model.limit_s));
      continue;
    }
    if (!graph || model.is_refused) {
      const std::string error = graph ? "it was not refused" : graph.error().to_string().substr(0, 1000);
      fmt::print(stderr, "{}: {}\n", model.name, error);
      report.add(model.name, std::nan(""), "s", at_most(model.limit_s));
      continue;
    }
    const double imported = watch.seconds();
    double before = imported;
    const auto after = [&](std::string_view pass, const Graph& g) {
      const double now = watch.seconds();
      if (passes) fmt::print(stderr, "  {:24} {:8.3f} s, {} nodes\n", pass, now - before, g.nodes().size());
      before = now;
    };
    const auto optimized = optimize(*graph, {.after = after});
    if (!optimized) fmt::print(stderr, "{}: {}\n", model.name, optimized.error().to_string().substr(0, 1000));
    report.add(model.name + ", imported", imported, "s");
    report.add(model.name + ", optimised", optimized ? watch.seconds() : std::nan(""), "s", at_most(model.limit_s));
    if (!plan || !optimized) continue;
    const Stopwatch planning;
    const auto planned = make_plan(*graph, {});
    if (!planned) fmt::print(stderr, "{}: {}\n", model.name, planned.error().to_string().substr(0, 1000));
    report.add(model.name + ", planned", planned ? planning.seconds() : std::nan(""), "s");
  }
  fmt::print("{}", report.table());
  if (const auto written = report.write(out); !written) {
    fmt::print(stderr, "{}\n", written.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}
