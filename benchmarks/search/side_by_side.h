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

/// A tuning confirms so many side by side, and the default, before it says which is the best (TuneOptions::confirm).
constexpr size_t kConfirmed = 3;

/// Times every program that was, at some trial, a contender of some search in `curves` (visit_contenders), and took no
/// more than `kWorthTiming` times as long as the best of that search, which may have met a busy machine, round by
/// round; of each the quietest round counts. Kept in run.folder; nothing is done where all of them were timed together
/// before. E102, E406, E5xx, E709.
constexpr double kWorthTiming = 1.5;
Result<> time_side_by_side(const SearchTask& task, const std::vector<Curve>& curves, const SearchRun& run,
                           Runner& runner);
/// What is known of that: the last time that they were timed together. E5xx
Result<SideBySide> known_side_by_side(const SearchTask& task, const SearchRun& run);

/// The curve of what a tuning would have handed out that ended with each trial: of its contenders, the one that is the
/// fastest side by side. What a search believes without reason does not count, and a noisy search gains nothing by
/// calling more programs the best so far. The curve rises where what was the best is a contender no longer. A program
/// without a time keeps its own.
Curve with_times(const Curve& curve, const SideBySide& times);

}  // namespace fettle::bench
