#include "graph/plan/memory.h"

#include <algorithm>
#include <numeric>

namespace fettle {

ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes) {
  ArenaPlan plan;
  plan.offsets.resize(lifetimes.size(), 0);
  const auto rounded = [](int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; };
  std::vector<size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].size_bytes > lifetimes[b].size_bytes; });
  std::vector<size_t> placed;
  for (size_t i : by_size) {
    const Lifetime& life = lifetimes[i];
    std::vector<std::pair<int64_t, int64_t>> taken;  // [begin, end), in memory, of what lives at the same time
    for (size_t j : placed)
      if (lifetimes[j].first_step <= life.last_step && life.first_step <= lifetimes[j].last_step)
        taken.emplace_back(plan.offsets[j], plan.offsets[j] + rounded(lifetimes[j].size_bytes));
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - at >= rounded(life.size_bytes)) break;
      at = std::max(at, end);
    }
    plan.offsets[i] = at;
    plan.size_bytes = std::max(plan.size_bytes, at + rounded(life.size_bytes));
    placed.push_back(i);
  }
  return plan;
}

}  // namespace fettle
