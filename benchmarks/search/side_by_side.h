#pragma once
// What the searches of a task found, timed again next to each other: searches are minutes apart, and the machine's pace
// changes more between them than what they found differs.

#include <map>
#include <string>
#include <vector>

#include "search/run.h"

namespace fettle::bench {

/// Seconds of one call, by trace.
using SideBySide = std::map<std::string, double>;

/// Times every program that was a best-so-far of some search in `curves`, and is no more than `kWorthTiming` times as
/// slow as the best of all, round by round; of each the quietest round counts. Kept in run.folder; nothing is done
/// where all of them were timed together before. E102, E406, E5xx, E709.
constexpr double kWorthTiming = 1.5;
Result<> time_side_by_side(const SearchTask& task, const std::vector<Curve>& curves, const SearchRun& run,
                           Runner& runner);
/// What is known of that: the last time that they were timed together. E5xx
Result<SideBySide> known_side_by_side(const SearchTask& task, const SearchRun& run);

/// The curve with these times in place of those that its search went by: what it had found by each trial, as if the
/// best so far had been confirmed. A program without a time keeps its own.
Curve with_times(const Curve& curve, const SideBySide& times);

}  // namespace fettle::bench
