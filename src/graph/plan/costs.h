#pragma once
// The cost of kernels. Planning asks the rest of the compiler for nothing else.

#include "ir/func.h"

namespace fettle {

class KernelCosts {
 public:
  virtual ~KernelCosts() = default;
  /// Seconds that one run of a canonical program takes on `threads` threads: measured, or estimated.
  virtual double seconds(const Func& workload, int threads) = 0;
  /// Seconds that two kernels lose because one hands so many bytes to the other through memory, which neither of them
  /// sees alone: what is still in a cache costs nothing.
  virtual double intermediate_seconds(int64_t bytes, int threads) {
    (void)bytes, (void)threads;
    return 0;
  }
};

}  // namespace fettle
