#pragma once
// The figures of the search benchmark, from curves alone. What was not measured has no figure.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/report.h"
#include "search/records.h"

namespace fettle::bench {

/// All searches of one task, by mode; one curve a seed.
struct TaskCurves {
  std::string name;
  double flops = 0;
  std::map<std::string, std::vector<Curve>> modes;
  bool side_by_side = false;              // what was found was timed again next to each other
  std::map<int64_t, double> peer_best_s;  // of TVM's MetaSchedule, by trials; empty: not run
};

/// What is made for few trials is compared with chance after each of these, and held to their mean.
constexpr int64_t kFewTrials[] = {8, 16, 32, 64};

/// A result is as fast as another one up to here: so well do times repeat that were taken side by side.
constexpr double kAsFast = 1.01;

struct FigureOptions {
  double peak_gflops = 0;  // of all threads; 0: not measured
  std::string fettle = "fettle";
  std::vector<std::string> three = {"autotvm", "ansor", "metaschedule"};
};

/// Random search of the space that `mode` searches, as a mode; empty: it is that itself.
std::string random_of(const std::string& mode);

/// Adds rows to the report; returns a line for each figure that cannot be had, and why.
std::vector<std::string> add_figures(Report& report, const std::vector<TaskCurves>& tasks,
                                     const FigureOptions& options = {});

}  // namespace fettle::bench
