#pragma once
// Which atoms a lowered kernel calls, how often and with what arguments.

#include <string>
#include <vector>

#include "cost/loop_tree/loop_tree.h"

namespace fettle {

struct AtomCall {
  std::string name;
  std::vector<int64_t> ints;  // integer arguments: trip counts and strides
  double calls = 0;           // in one run of the kernel
};

/// One entry for each atom and arguments, in program order.
std::vector<AtomCall> atom_calls(const LoopTree& tree);
std::vector<AtomCall> atom_calls(const LoweredKernel& kernel, const Target& target);

}  // namespace fettle
