// The schedule benchmark: what schedules by hand reach.

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "schedule/subjects.h"

using namespace fettle::bench;

int main(int argc, char** argv) {
  struct Subject {
    const char* name;
    void (*add)(Report&, const ScheduleBenchOptions&);
  };
  constexpr Subject kSubjects[] = {{"replay", add_replay},
                                   {"tensor_gemm", add_tensor_gemms},
                                   {"by_hand", add_hand_schedules},
                                   {"winograd", add_winograd},
                                   {"dae", add_latency_hiding}};

  ScheduleBenchOptions options;
  std::string out = "build/bench", only;
  CLI::App app("Schedules by hand, against the peak of this machine. Exits with 1 if a figure misses its bound.");
  app.add_option("--only", only, "only subjects whose name contains this");
  app.add_option("--timing", options.seconds, "seconds for each comparison")->capture_default_str();
  app.add_option("--out", out, "folder of schedule.json")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  Report report("schedule");
  for (const Subject& subject : kSubjects)
    if (std::string(subject.name).find(only) != std::string::npos) subject.add(report, options);
  fmt::print("{}", report.table());
  if (const auto written = report.write(out); !written) {
    fmt::print(stderr, "{}\n", written.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}
