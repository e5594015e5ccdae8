#include "quantize/histogram.h"

#include <algorithm>
#include <cmath>

namespace fettle::quantize {
namespace {

int64_t halved(int64_t bin) { return bin >> 1; }  // rounded down, of negative numbers, too

}  // namespace

double Histogram::bin_width() const { return std::ldexp(1, exponent_); }

void Histogram::double_width() {
  const int64_t first = halved(first_);
  std::vector<int64_t> counts;
  for (size_t i = 0; i < counts_.size(); ++i) {
    const auto at = static_cast<size_t>(halved(first_ + static_cast<int64_t>(i)) - first);
    if (counts.size() <= at) counts.resize(at + 1);
    counts[at] += counts_[i];
  }
  counts_ = std::move(counts);
  first_ = first;
  ++exponent_;
}

// Makes room for the bin, which must be within kBins of the others.
void Histogram::include(int64_t bin) {
  if (counts_.empty()) first_ = bin;
  if (bin < first_) {
    counts_.insert(counts_.begin(), static_cast<size_t>(first_ - bin), 0);
    first_ = bin;
  }
  const auto at = static_cast<size_t>(bin - first_);
  if (at >= counts_.size()) counts_.resize(at + 1);
}

void Histogram::add(std::span<const float> values) {
  Range range;
  bool is_any = false;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      has_nonfinite_ = true;
      continue;
    }
    range.least = is_any ? std::min<double>(range.least, value) : value;
    range.most = is_any ? std::max<double>(range.most, value) : value;
    is_any = true;
  }
  if (!is_any) return;
  extremes_ = count_ == 0 ? range : Range{std::min(extremes_.least, range.least), std::max(extremes_.most, range.most)};
  // Bins count from 0, which must be no further away.
  const auto bin_of = [&](double value) { return std::floor(std::ldexp(value, -exponent_)); };
  while (bin_of(std::max(extremes_.most, 0.0)) - bin_of(std::min(extremes_.least, 0.0)) >= kBins) double_width();
  include(static_cast<int64_t>(bin_of(extremes_.least)));
  include(static_cast<int64_t>(bin_of(extremes_.most)));
  const double per_bin = std::ldexp(1, -exponent_);
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    ++counts_[static_cast<size_t>(static_cast<int64_t>(std::floor(value * per_bin)) - first_)];
    ++count_;
  }
}

Range Histogram::percentile(double percent) const {
  const double cut = static_cast<double>(count_) * (100 - percent) / 200;
  const auto last = std::ssize(counts_) - 1;
  int64_t low = 0, high = last;
  double below = 0, above = 0;
  while (low < last && below + static_cast<double>(counts_[static_cast<size_t>(low)]) <= cut)
    below += static_cast<double>(counts_[static_cast<size_t>(low++)]);
  while (high > low && above + static_cast<double>(counts_[static_cast<size_t>(high)]) <= cut)
    above += static_cast<double>(counts_[static_cast<size_t>(high--)]);
  return {std::max(extremes_.least, static_cast<double>(first_ + low) * bin_width()),
          std::min(extremes_.most, static_cast<double>(first_ + high + 1) * bin_width())};
}

}  // namespace fettle::quantize
