#include "graph/plan/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace fettle {
namespace {

/// Of more lifetimes than these only the packing for typical sizes is made: comparing takes the square of their number.
constexpr size_t kMostCompared = 2000;

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

/// Where lifetimes lie for some sizes.
struct Packing {
  std::vector<int64_t> sizes, offsets;
  int64_t bytes = 0;
};

/// Of those that are as large, the earlier or the later ones are placed first.
Packing pack(const std::vector<Lifetime>& lifetimes, std::vector<int64_t> sizes, bool later_first) {
  const size_t n = lifetimes.size();
  Packing packing{std::move(sizes), std::vector<int64_t>(n, 0)};
  std::vector<size_t> by_size(n);
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  if (later_first) std::ranges::reverse(by_size);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return packing.sizes[a] > packing.sizes[b]; });
  std::vector<size_t> placed;
  for (size_t i : by_size) {
    std::vector<std::pair<int64_t, int64_t>> taken;  // [begin, end), in memory, of what lives at the same time
    for (size_t j : placed)
      if (live_together(lifetimes[i], lifetimes[j]))
        taken.emplace_back(packing.offsets[j], packing.offsets[j] + packing.sizes[j]);
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - at >= packing.sizes[i]) break;
      at = std::max(at, end);
    }
    packing.offsets[i] = at;
    packing.bytes = std::max(packing.bytes, at + packing.sizes[i]);
    placed.push_back(i);
  }
  return packing;
}

/// Lifetimes from the lowest to the highest.
std::vector<size_t> upwards(const Packing& packing) {
  std::vector<size_t> order(packing.offsets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    // What takes no bytes may lie where another begins.
    return std::pair(packing.offsets[a], -packing.sizes[a]) < std::pair(packing.offsets[b], -packing.sizes[b]);
  });
  return order;
}

/// Bytes for other sizes, where each lies above those that it lies above in the order.
int64_t bytes_in_order(const std::vector<Lifetime>& lifetimes, const std::vector<size_t>& order,
                       const std::vector<int64_t>& sizes) {
  int64_t bytes = 0;
  std::vector<int64_t> ends(order.size(), 0);
  for (size_t k = 0; k < order.size(); ++k) {
    int64_t at = 0;
    for (size_t l = 0; l < k; ++l)
      if (live_together(lifetimes[order[k]], lifetimes[order[l]])) at = std::max(at, ends[order[l]]);
    ends[order[k]] = at + sizes[order[k]];
    bytes = std::max(bytes, ends[order[k]]);
  }
  return bytes;
}

/// The lifetimes' bytes at typical sizes, then at multiples of all of these and of each; alone where none is open.
std::vector<std::vector<int64_t>> some_sizes(const std::vector<Lifetime>& lifetimes) {
  constexpr size_t kMostSymbols = 4;
  std::vector<Dim> symbols;
  for (const Lifetime& life : lifetimes)
    life.size_bytes.for_each_symbol([&](const Dim& symbol) {
      if (std::ranges::find(symbols, symbol) == symbols.end()) symbols.push_back(symbol);
    });
  std::vector<std::vector<int64_t>> samples;
  // `of`: the only symbol that is not typical, or all
  const auto add = [&](std::string_view of, double times) {
    std::vector<int64_t> sizes;
    const auto value = [&](std::string_view name) -> std::optional<Dim> {
      const Dim& symbol = *std::ranges::find(symbols, name, &Dim::symbol_name);
      const double scale = of.empty() || of == name ? times : 1;
      const int64_t divisor = std::max<int64_t>(symbol.divisor(), 1);
      const auto multiple = static_cast<int64_t>(static_cast<double>(symbol.typical()) * scale) / divisor * divisor;
      return std::clamp(multiple, symbol.min(), symbol.max());
    };
    for (const Lifetime& life : lifetimes) sizes.push_back(rounded(life.size_bytes.substitute(value)).value());
    samples.push_back(std::move(sizes));
  };
  add({}, 1);
  if (symbols.empty() || lifetimes.size() > kMostCompared) return samples;
  for (const double times : {0.25, 0.5, 2.0, 4.0}) add({}, times);
  for (size_t i = 0; i < std::min(symbols.size(), kMostSymbols) && symbols.size() > 1; ++i)
    for (const double times : {2.0, 4.0}) add(symbols[i].symbol_name(), times);
  return samples;
}

/// The packing for one of some sizes whose order takes least for all of them, by the worst case over the best packing.
Packing best_packing(const std::vector<Lifetime>& lifetimes) {
  const std::vector<std::vector<int64_t>> samples = some_sizes(lifetimes);
  std::vector<Packing> packings;
  std::vector<int64_t> fewest;  // bytes, one a sample
  for (const std::vector<int64_t>& sizes : samples) {
    packings.push_back(pack(lifetimes, sizes, false));
    fewest.push_back(packings.back().bytes);
    if (lifetimes.size() > kMostCompared) continue;
    packings.push_back(pack(lifetimes, sizes, true));
    fewest.back() = std::min(fewest.back(), packings.back().bytes);
  }
  size_t best = 0;
  double least = 0;
  for (size_t i = 0; i < packings.size() && packings.size() > 1; ++i) {
    const std::vector<size_t> order = upwards(packings[i]);
    double worst = 1;
    for (size_t j = 0; j < samples.size(); ++j)
      worst = std::max(worst, static_cast<double>(bytes_in_order(lifetimes, order, samples[j])) /
                                  static_cast<double>(std::max<int64_t>(fewest[j], 1)));
    if (i > 0 && worst >= least) continue;
    least = worst;
    best = i;
  }
  return std::move(packings[best]);
}

}  // namespace

ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes, const std::string& name) {
  const size_t n = lifetimes.size();
  const Packing packing = best_packing(lifetimes);
  const std::vector<int64_t>&sizes = packing.sizes, &offsets = packing.offsets;
  const std::vector<size_t> placed = upwards(packing);

  // Where each lies for all sizes: above those that it lies above there.
  ArenaPlan plan;
  plan.offsets.resize(n);
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
