#include "search/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "harness/statistics.h"
#include "search/modes.h"
#include "search/rank_tests.h"

namespace fettle::bench {
namespace {

const std::vector<Curve>* curves_of(const TaskCurves& task, const std::string& mode) {
  const auto found = task.modes.find(mode);
  return found == task.modes.end() || found->second.empty() ? nullptr : &found->second;
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Over the seeds.
double best_after(const std::vector<Curve>& curves, int64_t trials) {
  std::vector<double> best;
  for (const Curve& curve : curves) best.push_back(curve.best_after(trials));
  return std::ranges::all_of(best, [](double x) { return std::isfinite(x); }) ? median(best) : INFINITY;
}

/// Whether each has so many trials, or all that its space holds.
bool hold(const std::vector<Curve>& curves, int64_t trials) {
  return std::ranges::all_of(curves, [&](const Curve& curve) { return curve.holds(trials); });
}

/// The least of those that might have had more; INT64_MAX: none might.
int64_t trials_of(const std::vector<Curve>& curves) {
  int64_t least = INT64_MAX;
  for (const Curve& curve : curves)
    if (!curve.exhausted) least = std::min(least, curve.trials);
  return least;
}

/// Of all that any search held at any time: timed side by side, what it held last need not be the fastest of these.
double best_known(const TaskCurves& task) {
  double best = INFINITY;
  for (const auto& [mode, curves] : task.modes)
    for (const Curve& curve : curves)
      for (const CurvePoint& point : curve.improvements) best = std::min(best, point.best_s);
  return best;
}

class Figures {
 public:
  Figures(Report& report, const std::vector<TaskCurves>& tasks, const FigureOptions& options)
      : report_(report), tasks_(tasks), options_(options) {
    for (const TaskCurves& task : tasks)
      for (const auto& [mode, curves] : task.modes) modes_.insert(mode);
  }

  std::vector<std::string> run() {
    const auto timed = std::ranges::count_if(tasks_, &TaskCurves::side_by_side);
    report_.add("tasks whose results were timed again side by side", static_cast<double>(timed), "");
    near_the_best();
    few_trials();
    against_random();
    rate();
    time_to_peak("matmul 512x512x512", 0.95, 3, "GEMM 512^3: time to 95 % of peak");
    time_to_peak("conv 3x3 56x56 64-64", 0.90, 10, "conv 56x56 64-64: time to 90 % of direct peak");
    against_peer();
    return std::move(missing_);
  }

 private:
  void missing(const std::string& what, const std::string& why) {
    missing_.push_back(what + ": not measured (" + why + ")");
  }

  // How often each mode comes within 95 % of the best that any found.
  void near_the_best() {
    for (const std::string& mode : modes_) {
      int tasks = 0, near = 0, used_up = 0;
      int64_t least = INT64_MAX;
      for (const TaskCurves& task : tasks_) {
        const auto* curves = curves_of(task, mode);
        if (!curves) continue;
        ++tasks;
        const int64_t trials = trials_of(*curves);
        least = std::min(least, trials);
        if (trials == INT64_MAX) ++used_up;
        if (best_known(task) >= 0.95 * best_after(*curves, INT64_MAX)) ++near;
      }
      if (tasks == 0) continue;
      const bool counts = std::ranges::count(options_.three, mode) > 0 && least >= 1000 && tasks >= 20;
      // Where a space holds fewer programs, all of them.
      std::string trials = used_up < tasks ? fmt::format(">= {} trials", least) : "";
      if (used_up > 0) trials += fmt::format("{}all programs of {}", trials.empty() ? "" : " or ", used_up);
      report_.add(fmt::format("{}, {} tasks, {}: share within 95 % of the best known", mode, tasks, trials),
                  100.0 * near / tasks, "%", counts ? std::optional(at_least(75)) : std::nullopt);
    }
  }

  // Trials that Fettle needs for the best 256-trial result of the three: as far as two times can be told apart, and
  // to the last digit.
  void few_trials() {
    const std::string what =
        fmt::format("{}: share of trials to the best 256-trial result of the three", options_.fettle);
    const Reached as_fast = reached(kAsFast), exactly = reached(1);
    if (as_fast.shares.empty()) return missing(what, "needs 256 trials of autotvm, ansor and metaschedule");
    report_.add(fmt::format("{}, within {:.0f} %, geometric mean of {} tasks", what, 100 * (kAsFast - 1),
                            as_fast.shares.size()),
                geometric_mean(as_fast.shares), "", at_most(0.125));
    report_.add(fmt::format("{}, to the last digit", what), geometric_mean(exactly.shares), "");
    report_.add(fmt::format("{}: searches that never came within {:.0f} % (counted with all their trials)",
                            options_.fettle, 100 * (kAsFast - 1)),
                static_cast<double>(as_fast.never), "");
  }

  struct Reached {
    std::vector<double> shares;  // by task
    int64_t never = 0;           // searches
  };
  /// What times at most `slack` times as long as the best of the three takes.
  Reached reached(double slack) const {
    Reached found;
    for (const TaskCurves& task : tasks_) {
      double target = INFINITY;
      bool all = true;
      for (const std::string& mode : options_.three) {
        const auto* curves = curves_of(task, mode);
        all = all && curves && hold(*curves, 256);
        if (curves) target = std::min(target, best_after(*curves, 256));
      }
      const auto* own = curves_of(task, options_.fettle);
      if (!all || !own || !std::isfinite(target)) continue;
      std::vector<double> needed;
      for (const Curve& curve : *own) {
        const int64_t trials = curve.trials_to(slack * target);
        if (trials == 0) ++found.never;
        needed.push_back(static_cast<double>(trials > 0 ? trials : curve.trials));
      }
      found.shares.push_back(median(needed) / 256);
    }
    return found;
  }

  // Each strategy against random search of its own space: spaces differ in what random search makes of them. The
  // product starts from its default: what the search adds to that is seen against random search that does so, too.
  void against_random() {
    for (const std::string& mode : modes_) {
      const std::string base = random_of(mode);
      if (base.empty()) continue;
      if (modes_.contains(base))
        against(mode, base);
      else
        missing(mode + " against random search", "mode " + base + " was not run");
      if (base == "random" && modes_.contains("rules:random")) against(mode, "rules:random");
    }
  }

  void against(const std::string& mode, const std::string& base) {
    std::map<const TaskCurves*, std::vector<double>> few;  // differences after each of kFewTrials
    for (const int64_t trials : {8, 16, 32, 64, 256}) {
      // As many trials as both have; a space that holds no more is used up.
      std::vector<double> differences, ratios;
      for (const TaskCurves& task : tasks_) {
        const auto *own = curves_of(task, mode), *random = curves_of(task, base);
        if (!own || !random || !hold(*own, trials) || !hold(*random, trials)) continue;
        differences.push_back(std::log(best_after(*own, trials)) - std::log(best_after(*random, trials)));
        ratios.push_back(std::exp(-differences.back()));
        if (std::ranges::count(kFewTrials, trials) > 0) few[&task].push_back(differences.back());
      }
      if (differences.size() < 5) continue;
      const bool counts = differences.size() >= 20 && std::ranges::count(options_.three, mode) > 0 && trials == 256;
      report_.add(fmt::format("{} over {} after {} trials: speed, geometric mean of {} tasks", mode, base, trials,
                              ratios.size()),
                  geometric_mean(ratios), "");
      report_.add(fmt::format("{} over {} after {} trials: p by Wilcoxon", mode, base, trials), wilcoxon_p(differences),
                  "", counts ? std::optional(at_most(0.05)) : std::nullopt);
      report_.add(fmt::format("{} over {} after {} trials: p by signs", mode, base, trials), sign_test_p(differences),
                  "");
    }
    std::vector<double> means;
    for (const auto& [task, differences] : few)
      if (differences.size() == std::size(kFewTrials))
        means.push_back(std::accumulate(differences.begin(), differences.end(), 0.0) /
                        static_cast<double>(std::size(kFewTrials)));
    if (means.size() < 5) return;
    const bool counts = means.size() >= 20 && mode == options_.fettle;
    report_.add(fmt::format("{} over {} after 8 to 64 trials: p by Wilcoxon", mode, base), wilcoxon_p(means), "",
                counts ? std::optional(at_most(0.05)) : std::nullopt);
  }

  void rate() {
    for (const std::string& mode : modes_) {
      std::vector<double> rates;
      for (const TaskCurves& task : tasks_)
        if (const auto* curves = curves_of(task, mode))
          for (const Curve& curve : *curves)
            if (curve.seconds > 0) rates.push_back(static_cast<double>(curve.trials) / curve.seconds);
      if (rates.empty()) continue;
      report_.add(fmt::format("{}: trials a second, median task", mode), median(rates), "/s",
                  mode == options_.fettle ? std::optional(at_least(30)) : std::nullopt);
    }
  }

  void time_to_peak(const std::string& name, double share, double bound_s, const std::string& what) {
    const auto task = std::ranges::find(tasks_, name, &TaskCurves::name);
    if (task == tasks_.end() || options_.peak_gflops <= 0)
      return missing(what, task == tasks_.end() ? "the task was not run" : "the peak was not measured");
    for (const std::string& mode : modes_) {
      const auto* curves = curves_of(*task, mode);
      if (!curves) continue;
      const double target = task->flops / (share * options_.peak_gflops * 1e9);
      std::vector<double> seconds;
      for (const Curve& curve : *curves) {
        const double s = curve.seconds_to(target);
        seconds.push_back(s > 0 ? s : INFINITY);
      }
      std::ranges::sort(seconds);
      const double middle = seconds[seconds.size() / 2];
      const double reached = task->flops / best_after(*curves, INT64_MAX) / 1e9 / options_.peak_gflops;
      report_.add(fmt::format("{}: share of peak reached, {}", name, mode), 100 * reached, "%");
      if (std::isfinite(middle))
        report_.add(fmt::format("{}, {}", what, mode), middle, "s",
                    mode == options_.fettle ? std::optional(at_most(bound_s)) : std::nullopt);
      else
        report_.add(fmt::format("{}, {}: never", what, mode), NAN, "s",
                    mode == options_.fettle ? std::optional(at_most(bound_s)) : std::nullopt);
    }
  }

  void against_peer() {
    const std::string what = "TVM's MetaSchedule: tasks where 64 trials of ours do no worse than its best at 256";
    int tasks = 0, wins = 0;
    int64_t most = 0;
    for (const TaskCurves& task : tasks_) {
      const auto* own = curves_of(task, options_.fettle);
      if (!own || task.peer_best_s.empty() || !hold(*own, 1)) continue;
      ++tasks;
      most = std::max(most, task.peer_best_s.rbegin()->first);
      if (best_after(*own, 64) <= task.peer_best_s.rbegin()->second) ++wins;
    }
    if (tasks == 0) return missing(what, "run benchmarks/peers/tvm_metaschedule.py first");
    const bool counts = most >= 256 && tasks >= 20;
    report_.add(fmt::format("{} ({} tasks, its trials: {})", what, tasks, most), 100.0 * wins / tasks, "%",
                counts ? std::optional(at_least(75)) : std::nullopt);
  }

  Report& report_;
  const std::vector<TaskCurves>& tasks_;
  const FigureOptions& options_;
  std::set<std::string> modes_;
  std::vector<std::string> missing_;
};

}  // namespace

std::string random_of(const std::string& mode) {
  const auto found = find_mode(mode);
  if (!found || found->strategy == "random") return "";
  return found->space == "rules" ? "random" : found->space + ":random";
}

std::vector<std::string> add_figures(Report& report, const std::vector<TaskCurves>& tasks,
                                     const FigureOptions& options) {
  return Figures(report, tasks, options).run();
}

}  // namespace fettle::bench
