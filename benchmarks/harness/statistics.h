#pragma once

#include <cstddef>
#include <vector>

namespace fettle::bench {

/// A median with the half-width of its 95 % confidence interval, relative to the median (0.01 = 1 %).
struct Estimate {
  double median = 0;
  double half_width = 0;
  double min = 0;
  double max = 0;
  std::size_t samples = 0;
};

/// The value below which the fraction q (0..1) of the samples lies, by linear interpolation; NaN if there are none.
double quantile(std::vector<double> samples, double q);

/// The largest j such that the interval from the j-th smallest to the j-th largest of n samples holds the median of
/// their distribution with at least 95 % probability, whatever the distribution (sign test); 0 if n < 6, where none
/// does.
std::size_t median_interval_rank(std::size_t n);

/// Below six samples, the half-width is that of the whole range, or infinite for a single sample.
Estimate estimate(std::vector<double> samples);

/// Spearman's rank correlation of two equally long lists; ties share their mean rank. NaN below two samples or if one
/// list is constant.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace fettle::bench
