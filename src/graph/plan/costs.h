#pragma once
// What kernels cost: the only thing that planning asks the rest of the compiler.

#include "ir/func.h"

namespace fettle {

class KernelCosts {
 public:
  virtual ~KernelCosts() = default;
  /// Seconds that one run of a canonical program takes on `threads` threads: measured, or estimated.
  virtual double seconds(const Func& workload, int threads) = 0;
};

}  // namespace fettle
