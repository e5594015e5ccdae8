#include "schedule/primitives/sample_perfect_tile.h"

#include <unordered_map>

#include "base/small_vector.h"
#include "schedule/edit/steps.h"
#include "schedule/sampling.h"

namespace fettle {
namespace {

std::vector<int64_t> find_divisors(int64_t x) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d <= x / d; ++d) {
    if (x % d != 0) continue;
    low.push_back(d);
    if (d != x / d) high.push_back(x / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// Remembered, per thread: a search asks for those of the same few numbers again and again.
const std::vector<int64_t>& divisors_of(int64_t x) {
  constexpr size_t kMost = 4096;
  thread_local std::unordered_map<int64_t, std::vector<int64_t>> memory;
  const auto known = memory.find(x);
  if (known != memory.end()) return known->second;
  if (memory.size() >= kMost) memory.clear();
  return memory.emplace(x, find_divisors(x)).first->second;
}

// In how many ways x is a product of `parts` ordered factors: for each prime with exponent a, C(a + parts - 1, a).
uint64_t count_factorisations(int64_t x, int64_t parts) {
  if (parts == 0) return x == 1;
  uint64_t ways = 1;
  const auto spread = [&](int64_t exponent) {
    uint64_t choices = 1;
    for (int64_t i = 1; i <= exponent; ++i)
      choices = choices * static_cast<uint64_t>(parts - 1 + i) / static_cast<uint64_t>(i);
    ways *= choices;
  };
  for (int64_t prime = 2; prime <= x / prime; ++prime) {
    int64_t exponent = 0;
    for (; x % prime == 0; x /= prime) ++exponent;
    spread(exponent);
  }
  if (x > 1) spread(1);
  return ways;
}

/// The lists of n factors of an extent.
class Choices {
 public:
  Choices(int64_t extent, int64_t n, int64_t max_innermost)
      : extent_(extent), n_(static_cast<size_t>(n)), limit_(n == 1 || max_innermost == 0 ? extent : max_innermost) {}

  bool contain(const Decision& decision) const {
    const Decision::List& d = decision.list();
    if (d.size() != n_ || d.back() > limit_) return false;
    int64_t left = extent_;
    for (int64_t factor : d) {
      if (factor < 1 || left % factor != 0) return false;
      left /= factor;
    }
    return left == 1;
  }

  // From the innermost outwards, each factor with the weight of how many ways there are to go on.
  Decision draw(RandomStream& stream) const {
    Decision::List decision(n_, 1);
    int64_t left = extent_;
    for (size_t k = n_ - 1; k > 0; --k) {
      uint64_t total = 0;
      SmallVector<std::pair<int64_t, uint64_t>, 32> options;
      for (int64_t factor : divisors_of(left)) {
        if (k == n_ - 1 && factor > limit_) break;
        const uint64_t ways = count_factorisations(left / factor, static_cast<int64_t>(k));
        options.emplace_back(factor, ways);
        total += ways;
      }
      uint64_t at = stream.below(total);
      size_t i = 0;
      while (at >= options[i].second) at -= options[i++].second;
      decision[k] = options[i].first;
      left /= decision[k];
    }
    decision[0] = left;
    return decision;
  }

 private:
  int64_t extent_;
  size_t n_;
  int64_t limit_;
};

Result<Applied> apply_sample_perfect_tile(const Schedule& s, const SamplePerfectTileArgs& args) {
  constexpr int64_t kMaxParts = 16, kMaxExtent = int64_t{1} << 40;  // keep counts and divisors within bounds
  FETTLE_TRY(const Stmt loop, s.loop(args.loop));
  if (args.n < 1 || args.n > kMaxParts)
    return fail(ErrorCode::E202, "n is " + std::to_string(args.n) + ", not 1 to 16");
  if (args.max_innermost < 0) return fail(ErrorCode::E202, "max_innermost is negative");
  const int64_t* constant = as_int(loop.as<ForNode>()->extent);
  if (!constant || *constant < 1 || *constant > kMaxExtent)
    return refused(ErrorCode::E221, s.func(), loop.get(), "the extent has no factors to choose from");
  const Choices choices(*constant, args.n, args.max_innermost);
  const auto valid = [&](const Decision& d) { return choices.contain(d); };
  const auto draw = [&](RandomStream& stream) { return choices.draw(stream); };
  FETTLE_TRY(Drawn drawn, decide(s, args.name, valid, draw));
  return sampled(std::move(drawn));
}

}  // namespace

Decision perfect_tile_of(int64_t extent, int64_t n, int64_t max_innermost, const Decision* remembered,
                         RandomStream stream) {
  const Choices choices(extent, n, max_innermost);
  return remembered && choices.contain(*remembered) ? *remembered : choices.draw(stream);
}

double perfect_tile_count(int64_t extent, int64_t n, int64_t max_innermost) {
  if (n < 2 || max_innermost == 0) return static_cast<double>(count_factorisations(extent, n));
  double count = 0;
  for (const int64_t factor : divisors_of(extent))
    if (factor <= max_innermost) count += static_cast<double>(count_factorisations(extent / factor, n - 1));
  return count;
}

constinit const PrimitiveDef sample_perfect_tile_def =
    define_sampling<SamplePerfectTileArgs, apply_sample_perfect_tile>("sample_perfect_tile", 1);

Result<std::vector<ValueRef>> sample_perfect_tile(Schedule& s, const SamplePerfectTileArgs& args) {
  return run<std::vector<ValueRef>>(s, sample_perfect_tile_def, args);
}

}  // namespace fettle
