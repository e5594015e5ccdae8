#pragma once
// All threads of a team are up before anything is timed.

#include <atomic>
#include <cstdint>

#include "rt/abi.h"

namespace fettle {

/// Waits until every thread of the team has met the others a few times in a row. The workers of a new team take
/// milliseconds until each runs on a CPU of its own. Until then a kernel takes as long as on fewer threads. Gives up
/// after some 10 ms, since other programs may hold the CPUs. Returns how often all met.
int gather_team(FettleTeam* team);

/// The same for threads that are no team.
class Gathering {
 public:
  explicit Gathering(int threads) : threads_(threads) {}
  /// Waits for the others likewise. Each of the threads calls it once.
  void attend();

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
};

}  // namespace fettle
