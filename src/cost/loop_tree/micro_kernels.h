#pragma once
// Which micro-kernels a lowered kernel calls, how often and with what arguments.

#include <string>
#include <vector>

#include "cost/loop_tree/loop_tree.h"

namespace fettle {

struct MicroKernelCall {
  std::string name;
  std::vector<int64_t> ints;  // integer arguments: trip counts and strides
  double calls = 0;           // in one run of the kernel
};

/// One entry for each micro-kernel and arguments, in program order.
std::vector<MicroKernelCall> micro_kernel_calls(const LoopTree& tree);
std::vector<MicroKernelCall> micro_kernel_calls(const LoweredKernel& kernel, const Target& target);

}  // namespace fettle
