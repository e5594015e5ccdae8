#include "search/ranking.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>

namespace fettle::bench {
namespace {

std::vector<size_t> order_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  return order;
}

}  // namespace

Ranking rank(const std::vector<double>& predicted, const std::vector<double>& seconds) {
  Ranking result{NAN, NAN, NAN, NAN};
  int64_t pairs = 0, right = 0;
  for (size_t i = 0; i < seconds.size(); ++i)
    for (size_t j = 0; j < seconds.size(); ++j) {
      if (seconds[j] < 1.02 * seconds[i]) continue;
      ++pairs;
      right += predicted[i] < predicted[j] ? 1 : 0;
    }
  if (pairs == 0) return result;
  result.accuracy = static_cast<double>(right) / static_cast<double>(pairs);
  const size_t k = seconds.size() < 32 ? std::max<size_t>(1, seconds.size() / 4) : 8;
  const auto best = order_of(seconds), chosen = order_of(predicted);
  const std::set<size_t> fastest(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(k));
  size_t found = 0;
  double fastest_chosen = INFINITY;
  for (size_t i = 0; i < k; ++i) {
    found += fastest.contains(chosen[i]) ? 1 : 0;
    fastest_chosen = std::min(fastest_chosen, seconds[chosen[i]]);
  }
  result.recall = static_cast<double>(found) / static_cast<double>(k);
  result.regret = fastest_chosen / seconds[best.front()] - 1;
  result.untimed_regret = seconds[chosen.front()] / seconds[best.front()] - 1;
  return result;
}

}  // namespace fettle::bench
