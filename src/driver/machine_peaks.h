#pragma once
// What this machine reaches at best, measured briefly by the same programs that the atom table is measured by.

#include <vector>

#include "base/result.h"
#include "target/target.h"

namespace fettle {

struct CopyRate {
  int level = 0;               // where both buffers lie: 1, 2, … a cache; 0: memory
  double buffer_bytes = 0;     // of each of the two
  double bytes_per_second = 0; // read and written
};

struct MachinePeaks {
  double flops = 0;      // a second, fp32: a register kernel on one thread, its operands in the first-level cache
  double all_flops = 0;  // the same on target.threads threads at once, summed
  int threads = 1;       // of all_flops
  std::vector<CopyRate> copies;  // one thread copies; a level too large to tell from the next is left out
};

/// Takes about a second. Errors: those of building (E2xx, E301, E302, E303), E710 a program fails.
Result<MachinePeaks> measure_peaks(const Target& target);

}  // namespace fettle
