#pragma once
// The static memory plan: every intermediate result has its place in one arena, reused when its last reader is done.

#include <cstdint>
#include <vector>

namespace fettle {

/// Bytes that are needed from the step that writes them first to the step that reads them last, both included.
struct Lifetime {
  int64_t size_bytes = 0;
  int first_step = 0;
  int last_step = 0;
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // one a lifetime, multiples of kArenaAlignment
  int64_t size_bytes = 0;
};

inline constexpr int64_t kArenaAlignment = 64;

/// Places of lifetimes such that no two that overlap in time overlap in memory. Largest first, each at the lowest gap
/// that fits (greedy by size; Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes);

}  // namespace fettle
