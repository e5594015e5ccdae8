#pragma once
// Tells how a scheduled program stores its constants: as they come, or packed by its prologue.

#include <vector>

#include "base/hash.h"
#include "ir/func.h"

namespace fettle {

/// A buffer that the prologue makes.
struct Packing {
  size_t made = 0;              // index into KernelConstants::params
  std::vector<size_t> sources;  // constants that it is made of, in ascending order
  /// Equal digests, equal sources in equal layouts: equal bytes. Loops do not matter, nor what the kernel does with it.
  Digest digest;
};

struct KernelConstants {
  std::vector<Param> params;  // of the kernel: LoweredKernel::kernel_params
  std::vector<bool> is_read;  // one a parameter: the kernel accesses it, not the prologue alone
  std::vector<Packing> packings;
};

/// Without lowering anything.
KernelConstants constants_of(const Func& scheduled);

}  // namespace fettle
