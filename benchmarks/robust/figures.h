#pragma once
// The other figures of robustness, each for itself.

#include <cstdint>
#include <filesystem>
#include <string>

namespace fettle::bench {

struct InjectedOutcome {
  int64_t candidates = 0, injected = 0;
  int64_t miscounted = 0;      // injected ones that were recorded as something else, and good ones that failed
  bool tuning_ended = false;   // a tuning among such candidates
  bool best_is_right = false;  // what it chose is none of those
  std::string problem;
};
/// One in four candidates crashes, hangs, exhausts memory, forks or corrupts its output.
InjectedOutcome inject(int candidates, const std::filesystem::path& folder);

struct ReplayOutcome {
  int64_t measured = 0, replayed = 0;
  int64_t different = 0;   // of the replayed sequence
  int64_t not_prefix = 0;  // shorter budgets whose sequence is no prefix
  int64_t shorter = 0;     // of so many
};
/// Times recorded in one tuning, replayed in others with the same seed.
ReplayOutcome replay_recorded(int trials, const std::filesystem::path& folder);

struct MemoryOutcome {
  int64_t made = 0, measured = 0;
  double tuner_mib = 0, tuner_growth_mib = 0;    // at the end; since a quarter of them was measured
  double worker_mib = 0, worker_growth_mib = 0;  // the largest
};
/// Many candidates made and measured by one tuner.
MemoryOutcome memory_of_many(int64_t made, int64_t measured, const std::filesystem::path& folder);

}  // namespace fettle::bench
