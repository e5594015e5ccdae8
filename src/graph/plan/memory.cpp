#include "graph/plan/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace fettle {
namespace {

Dim rounded(const Dim& bytes) { return ceildiv(bytes, kArenaAlignment) * kArenaAlignment; }

bool live_together(const Lifetime& a, const Lifetime& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

/// The maximum of some dims: of numbers a number, else a size of its own.
class Places {
 public:
  Dim max_of(const std::vector<Dim>& ends) {
    Dim most = 0;
    std::vector<Dim> open;
    for (const Dim& end : ends) {
      if (end.is_number())
        most = max(most, end);
      else if (std::ranges::find(open, end) == open.end())
        open.push_back(end);
    }
    if (open.empty()) return most;
    if (!(most == Dim(0))) open.push_back(most);
    int64_t typical = 0;
    for (const Dim& end : open) typical = std::max(typical, end.typical());
    const Dim offset = Dim::symbol(fmt::format("{}{}", name, places.size()), 0, kMaxDim, kArenaAlignment, typical);
    places.push_back({offset, std::move(open)});
    return offset;
  }

  std::string name;
  std::vector<ArenaPlace> places;
};

}  // namespace

ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes, const std::string& name) {
  // Where each lies at typical sizes.
  const size_t n = lifetimes.size();
  std::vector<int64_t> sizes, offsets(n, 0);
  for (const Lifetime& life : lifetimes) sizes.push_back(rounded(life.size_bytes.typical()).value());
  std::vector<size_t> by_size(n);
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) {
    return lifetimes[a].size_bytes.typical() > lifetimes[b].size_bytes.typical();
  });
  std::vector<size_t> placed;
  for (size_t i : by_size) {
    std::vector<std::pair<int64_t, int64_t>> taken;  // [begin, end), in memory, of what lives at the same time
    for (size_t j : placed)
      if (live_together(lifetimes[i], lifetimes[j])) taken.emplace_back(offsets[j], offsets[j] + sizes[j]);
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - at >= sizes[i]) break;
      at = std::max(at, end);
    }
    offsets[i] = at;
    placed.push_back(i);
  }

  // Where each lies for all sizes: above those that it lies above there.
  ArenaPlan plan;
  plan.offsets.resize(n);
  std::stable_sort(placed.begin(), placed.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
  Places places{name, {}};
  std::vector<Dim> ends(n);
  // The ends of some, without those that lie below another of them: these end lower, whatever the sizes are.
  const auto ends_of = [&](const std::vector<size_t>& some) {
    std::vector<Dim> found;
    for (size_t a = 0; a < some.size(); ++a) {
      // What takes no bytes may lie where another begins.
      const auto is_above = [&](size_t other) {
        return live_together(lifetimes[other], lifetimes[some[a]]) &&
               (!plan.offsets[other].is_number() || offsets[other] >= offsets[some[a]] + sizes[some[a]]);
      };
      if (std::none_of(some.begin() + static_cast<std::ptrdiff_t>(a) + 1, some.end(), is_above))
        found.push_back(ends[some[a]]);
    }
    return found;
  };
  for (size_t k = 0; k < n; ++k) {
    const size_t i = placed[k];
    std::vector<size_t> lower;
    for (size_t l = 0; l < k; ++l)
      if (live_together(lifetimes[i], lifetimes[placed[l]])) lower.push_back(placed[l]);
    const std::vector<Dim> below = ends_of(lower);
    const bool is_fixed = lifetimes[i].size_bytes.is_number() &&
                          std::ranges::all_of(below, [](const Dim& end) { return end.is_number(); });
    plan.offsets[i] = is_fixed ? Dim(offsets[i]) : places.max_of(below);
    ends[i] = plan.offsets[i] + rounded(lifetimes[i].size_bytes);
  }
  plan.size_bytes = places.max_of(ends_of(placed));
  plan.places = std::move(places.places);
  return plan;
}

int64_t live_bytes(const std::vector<Lifetime>& lifetimes, int step) {
  int64_t bytes = 0;
  for (const Lifetime& life : lifetimes) {
    if (step < life.first_step || step > life.last_step) continue;
    if (!life.size_bytes.is_number()) return -1;
    bytes += life.size_bytes.value();
  }
  return bytes;
}

}  // namespace fettle
