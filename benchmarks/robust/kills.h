#pragma once
// Processes killed at random moments of a tuning.

#include <cstdint>
#include <filesystem>
#include <string>

namespace fettle::bench {

struct KillOutcome {
  int tuners = 0, workers = 0, children = 0;  // killed
  int64_t reported = 0;                       // results that tuners told of before they died
  int64_t lost = 0;                           // of these, without a record afterwards
  int64_t left_behind = 0;                    // rounds after which a process was still there
  int64_t measured_again = 0;                 // traces that the search measured although they had a record
  bool ended = false;                         // the tuning came to its end, by the last run
  std::string problem;                        // the first thing that is not as it should be
};

/// Tunes into one database in `folder`; `moments` times, the tuner, its worker or the worker's child gets SIGKILL at a
/// random moment. After each death of the tuner, all that it reported must be recorded, and nothing it started may
/// live; the next one goes on. Then a last run goes to the end. Forks: the caller has one thread.
KillOutcome kill_at_random(int moments, uint64_t seed, const std::filesystem::path& folder);

}  // namespace fettle::bench
