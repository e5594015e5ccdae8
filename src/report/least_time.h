#pragma once
// The least time of one call that this machine's peaks allow: no schedule of the same algorithm takes less.

#include <string>

#include "driver/necessary_work.h"
#include "report/machine_peaks.h"
#include "target/target.h"

namespace fettle {

struct LeastTime {
  double seconds = 0;  // 0: nothing is known
  std::string by;      // "fp32", "split products", "products", "operations", "L2", "memory": what takes that long
};
/// Whichever takes longest: the algorithm's multiply-adds; these and all other multiplications; all arithmetic;
/// reading; copying what is read to what is written. Where the target has a tile unit for bf16, multiply-adds take what
/// six products of their parts take there, if that is less, and nothing elsewhere. Data are where the calls
/// before left them at best: the caches are full of them, from the first level outwards. On one thread or on all
/// `threads`, which then fork and join once.
LeastTime least_time(const NecessaryWork& work, const Target& target, const MachinePeaks& peaks, int threads);

}  // namespace fettle
