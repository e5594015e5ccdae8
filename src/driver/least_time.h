#pragma once
// The least time of one call that this machine's peaks allow: no schedule of the same algorithm takes less.

#include <string>

#include "driver/machine_peaks.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// What every program for a workload has to do.
struct NecessaryWork {
  double flops = 0;          // of the algorithm with the fewest, 2 for each multiply-add of its contractions
  double read_bytes = 0;     // of parameters, each once; of a table, the rows that are looked up
  double written_bytes = 0;  // of parameters, each once
};
NecessaryWork necessary_work(const Func& workload);

struct LeastTime {
  double seconds = 0;  // 0: nothing is known
  std::string by;      // "fp32", "L2", "memory": what takes that long
};
/// Whichever takes longest: the arithmetic; reading; copying what is read to what is written. Data are where the calls
/// before left them at best: the caches are full of them, from the first level outwards. On one thread or on all
/// `threads`, which then fork and join once.
LeastTime least_time(const NecessaryWork& work, const Target& target, const MachinePeaks& peaks, int threads);

}  // namespace fettle
