// The robustness benchmark: whether a tuning survives what may happen in it.

#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>

#include "harness/report.h"
#include "robust/figures.h"
#include "robust/kills.h"

using namespace fettle;
using namespace fettle::bench;

int main(int argc, char** argv) {
  std::string out = "build/bench", skip;
  int moments = 50, injected = 200, trials = 120;
  int64_t made = 100000, measured = 2000;
  uint64_t seed = 1;
  CLI::App app("Whether a tuning survives what may happen in it. Exits with 1 if a figure misses its bound.");
  app.add_option("--skip", skip, "parts to leave out, separated by commas: kills, injected, replay, memory");
  app.add_option("--moments", moments, "at which a process is killed")->capture_default_str();
  app.add_option("--injected", injected, "candidates, of which one in four misbehaves")->capture_default_str();
  app.add_option("--trials", trials, "recorded and replayed")->capture_default_str();
  app.add_option("--made", made, "candidates made")->capture_default_str();
  app.add_option("--measured", measured, "of these")->capture_default_str();
  app.add_option("--seed", seed, "of the moments")->capture_default_str();
  app.add_option("--out", out, "folder of robust.json")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto skipped = [&](const char* part) {
    return ("," + skip + ",").find(fmt::format(",{},", part)) != std::string::npos;
  };
  std::string folder = (std::filesystem::temp_directory_path() / "fettle_robust_XXXXXX").string();
  if (!::mkdtemp(folder.data())) return 1;
  Report report("robust");
  const auto tell = [](const std::string& problem) {
    if (!problem.empty()) fmt::print(stderr, "{}\n", problem);
  };

  if (!skipped("kills")) {
    const KillOutcome killed = kill_at_random(moments, seed, folder);
    tell(killed.problem);
    report.add("kill -9: moments", killed.tuners + killed.workers + killed.children, "", at_least(moments));
    report.add("kill -9: of a tuner", killed.tuners, "");
    report.add("kill -9: of a worker", killed.workers, "");
    report.add("kill -9: of a worker's child", killed.children, "");
    report.add("kill -9: results reported", static_cast<double>(killed.reported), "", at_least(1));
    report.add("kill -9: reported results without a record", static_cast<double>(killed.lost), "", at_most(0));
    report.add("kill -9: processes left behind", static_cast<double>(killed.left_behind), "", at_most(0));
    report.add("kill -9: traces measured again", static_cast<double>(killed.measured_again), "", at_most(0));
    report.add("kill -9: the last run ended", killed.ended, "", at_least(1));
  }
  if (!skipped("injected")) {
    const InjectedOutcome outcome = inject(injected, folder);
    tell(outcome.problem);
    report.add("injected: candidates", static_cast<double>(outcome.candidates), "", at_least(injected));
    report.add("injected: misbehaving", static_cast<double>(outcome.injected), "", at_least(injected / 4));
    report.add("injected: counted as something else", static_cast<double>(outcome.miscounted), "", at_most(0));
    report.add("injected: the tuning ended", outcome.tuning_ended, "", at_least(1));
    report.add("injected: what it chose is right", outcome.best_is_right, "", at_least(1));
  }
  if (!skipped("replay")) {
    const ReplayOutcome outcome = replay_recorded(trials, folder);
    report.add("replay: candidates", static_cast<double>(outcome.measured), "", at_least(trials));
    report.add("replay: different ones", static_cast<double>(outcome.different), "", at_most(0));
    report.add("replay: shorter budgets", static_cast<double>(outcome.shorter), "", at_least(5));
    report.add("replay: of these, no prefix", static_cast<double>(outcome.not_prefix), "", at_most(0));
  }
  if (!skipped("memory")) {
    const MemoryOutcome outcome = memory_of_many(made, measured, folder);
    report.add("memory: candidates made", static_cast<double>(outcome.made), "", at_least(static_cast<double>(made)));
    report.add("memory: measured", static_cast<double>(outcome.measured), "", at_least(static_cast<double>(measured)));
    report.add("memory: tuner", outcome.tuner_mib, "MiB");
    report.add("memory: tuner, growth over the last three quarters", outcome.tuner_growth_mib, "MiB", at_most(32));
    report.add("memory: worker", outcome.worker_mib, "MiB");
    report.add("memory: worker, growth over the last three quarters", outcome.worker_growth_mib, "MiB", at_most(32));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  fmt::print("{}", report.table());
  if (const auto written = report.write(out); !written) {
    tell(written.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}
