#pragma once
// The memory plan: every intermediate result has its place in one arena, reused when its last reader is done.

#include <cstdint>
#include <string>
#include <vector>

#include "graph/dim.h"

namespace fettle {

/// Bytes that are needed from the step that writes them first to the step that reads them last, both included.
struct Lifetime {
  Dim size_bytes = 0;
  int first_step;
  int last_step;
};

inline constexpr int64_t kArenaAlignment = 64;

/// A place that depends on sizes. It is the maximum of `ends`, where others end that it lies above.
struct ArenaPlace {
  Dim offset;  // a size of the plan's own, by which others speak of it
  std::vector<Dim> ends;
};

struct ArenaPlan {
  std::vector<Dim> offsets;  // one a lifetime, multiples of kArenaAlignment
  Dim size_bytes = 0;
  /// In an order in which each speaks of earlier ones alone.
  std::vector<ArenaPlace> places;
};

/// Places of lifetimes such that no two that overlap in time overlap in memory. Largest first, each at the lowest gap
/// that fits (greedy by size; Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
/// Of those as large, the earlier or the later ones come first, whichever takes less.
/// Where sizes are open, this decides at some sizes who lies above whom, for all; each lies as low as it can. These are
/// the typical ones, or multiples of them if what they decide takes less in the worst case.
/// Sizes of its own are called after `name`, with a number behind it.
ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes, const std::string& name = "place");

/// Bytes that are in use in a step; -1 where sizes are open.
int64_t live_bytes(const std::vector<Lifetime>& lifetimes, int step);

}  // namespace fettle
