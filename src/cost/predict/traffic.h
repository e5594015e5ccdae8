#pragma once
// Which cache lines a loop tree moves, and from where: by the footprints of its loops.

#include <array>
#include <vector>

#include "cost/loop_tree/loop_tree.h"
#include "cost/predict/machine_costs.h"

namespace fettle {

/// Lines that a part of a kernel brings into the first-level cache, by where they come from.
struct Traffic {
  std::array<double, kSources> read{}, written{};
  std::array<double, kSources> asked{};  // of these, lines that prefetches name, for that cache
  std::array<double, kSources>
      sudden{};                         // lines that nobody asks for of what register tiles read a line or more a step
  std::array<double, kSources> edge{};  // of buffers that micro-kernels read outside of their loops; not in the others
};

/// One entry for each nest: the children of the root sequence, or the root alone. `threads` share the outermost
/// parallel loop; counts are those of one thread. The kernel runs again and again, so what fits a cache is there.
std::vector<Traffic> traffic_of_nests(const LoopTree& tree, const MachineCosts& costs, int threads);

/// Distinct bytes (whole lines) that `node` touches.
double footprint_bytes(const LoopTree& tree, const CostNode& node);

/// The nests of a kernel.
std::vector<const CostNode*> nests_of(const LoopTree& tree);

}  // namespace fettle
