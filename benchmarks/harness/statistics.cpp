#include "harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace fettle::bench {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    for (std::size_t i = first; i <= last; ++i) rank[order[i]] = 0.5 * static_cast<double>(first + last);
    first = last + 1;
  }
  return rank;
}

}  // namespace

double quantile(std::vector<double> samples, double q) {
  if (samples.empty()) return kNan;
  std::sort(samples.begin(), samples.end());
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double weight = position - static_cast<double>(below);
  return samples[below] * (1 - weight) + samples[above] * weight;
}

std::size_t median_interval_rank(std::size_t n) {
  // The interval misses with probability 2 P(Bin(n, 1/2) < j).
  const double count = static_cast<double>(n);
  double below = 0;
  std::size_t rank = 0;
  for (std::size_t i = 0; 2 * i < n; ++i) {
    const double k = static_cast<double>(i);
    below += std::exp(std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1) - count * std::log(2.0));
    if (2 * below > 0.05) break;
    rank = i + 1;
  }
  return rank;
}

Estimate estimate(std::vector<double> samples) {
  Estimate result;
  result.samples = samples.size();
  if (samples.empty()) {
    result.median = result.min = result.max = kNan;
    result.half_width = std::numeric_limits<double>::infinity();
    return result;
  }
  std::sort(samples.begin(), samples.end());
  result.median = quantile(samples, 0.5);
  result.min = samples.front();
  result.max = samples.back();
  if (samples.size() == 1) {
    result.half_width = std::numeric_limits<double>::infinity();
    return result;
  }
  const std::size_t rank = std::max<std::size_t>(1, median_interval_rank(samples.size()));
  const double low = samples[rank - 1];
  const double high = samples[samples.size() - rank];
  result.half_width = 0.5 * (high - low) / std::abs(result.median);
  return result;
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.size() < 2) return kNan;
  const auto ra = ranks(a);
  const auto rb = ranks(b);
  const double mean = 0.5 * static_cast<double>(a.size() - 1);
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < ra.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : kNan;
}

}  // namespace fettle::bench
