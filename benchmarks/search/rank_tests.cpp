#include "search/rank_tests.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fettle::bench {
namespace {

std::vector<double> without_zeros(std::vector<double> values) {
  std::erase_if(values, [](double x) { return x == 0 || std::isnan(x); });
  return values;
}

}  // namespace

double wilcoxon_p(const std::vector<double>& differences) {
  std::vector<double> d = without_zeros(differences);
  if (d.empty()) return 1;
  std::ranges::sort(d, {}, [](double x) { return std::fabs(x); });
  // Twice the ranks, so that shared ones are whole.
  std::vector<int64_t> ranks(d.size());
  for (size_t i = 0; i < d.size();) {
    size_t end = i;
    while (end < d.size() && std::fabs(d[end]) == std::fabs(d[i])) ++end;
    for (size_t k = i; k < end; ++k) ranks[k] = static_cast<int64_t>(i + 1 + end);
    i = end;
  }
  int64_t total = 0, positive = 0;
  for (size_t i = 0; i < d.size(); ++i) {
    total += ranks[i];
    if (d[i] > 0) positive += ranks[i];
  }
  // Of all ways to choose signs, the share whose positive ranks sum to no more.
  std::vector<double> ways(static_cast<size_t>(total) + 1, 0.0);
  ways[0] = 1;
  for (const int64_t rank : ranks)
    for (int64_t sum = total; sum >= rank; --sum)
      ways[static_cast<size_t>(sum)] += ways[static_cast<size_t>(sum - rank)];
  double below = 0;
  for (int64_t sum = 0; sum <= positive; ++sum) below += ways[static_cast<size_t>(sum)];
  return below / std::pow(2.0, static_cast<double>(d.size()));
}

double sign_test_p(const std::vector<double>& differences) {
  const std::vector<double> d = without_zeros(differences);
  if (d.empty()) return 1;
  const auto n = static_cast<int64_t>(d.size());
  const int64_t negative = std::ranges::count_if(d, [](double x) { return x < 0; });
  double p = 0;
  for (int64_t k = negative; k <= n; ++k) {
    double log_ways = std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0);
    p += std::exp(log_ways - static_cast<double>(n) * std::log(2.0));
  }
  return std::min(1.0, p);
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return values.empty() ? NAN : std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace fettle::bench
