#pragma once
// Strategies compared without a clock: their candidates are looked up among all that was ever measured of a task, so
// that every one of them meets the same times, whatever else the machine did meanwhile.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report.h"
#include "search/run.h"

namespace fettle::bench {

/// One program of a task, as one search measured it.
struct MeasuredProgram {
  double seconds = 0;
  bool raced_out = false;  // given up: it takes at least about that long
};
/// What one search measured, by trace. Its times can be compared with each other.
using MeasuredBySearch = std::map<std::string, MeasuredProgram>;

/// Seconds by trace, on the scale of the search that measured most: each of the others is brought to it by what both
/// measured to the end (the median ratio; left out where that is fewer than three programs). A program's time is the
/// median of those measured to the end, else the least at which it was given up. What was measured once alone and is
/// faster than 99 of 100 of those that were measured twice was lucky, and counts as one of these.
std::map<std::string, double> on_one_scale(const std::vector<MeasuredBySearch>& searches);

/// From all searches of the space "rules" in run.folder, whichever mode and seed. E5xx
Result<std::map<std::string, double>> measured_space(const SearchTask& task, const SearchRun& run);

struct ReplayOptions {
  int seeds = 10;
  size_t batch = 8;
  double least_known = 0.15;  // of a hundred random points: of a task of which less was measured, too little is known
};

/// Each strategy, and random search, from the constructed default on: how far off the best they are after 8, 16, 32 and
/// 64 trials, and whether that is better than chance (Wilcoxon, over the tasks; at each of these, and over their mean).
/// What was not measured is passed over, and is no trial: the space is what is known of it. Returns a line for each
/// task that is left out, and why. E5xx
Result<std::vector<std::string>> add_replayed(Report& report, const std::vector<const SearchTask*>& tasks,
                                              const SearchRun& run, const ReplayOptions& options = {});

}  // namespace fettle::bench
