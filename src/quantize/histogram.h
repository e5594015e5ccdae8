#pragma once
// How often values of which size were seen.

#include <cstdint>
#include <span>
#include <vector>

namespace fettle::quantize {

struct Range {
  double least = 0, most = 0;
};

/// Counts values in bins of equal width, a power of two. Where all values and 0 do not fit into kBins bins, the width
/// doubles, and neighbours become one: so the bins do not depend on the order of what is added.
class Histogram {
 public:
  static constexpr int64_t kBins = 4096;

  void add(std::span<const float> values);

  int64_t count() const { return count_; }
  /// Whether a value was NaN or infinite; such are not counted.
  bool has_nonfinite() const { return has_nonfinite_; }
  /// Of all values.
  Range extremes() const { return extremes_; }
  /// Without the lowest and the highest (100 - percent) / 2 percent of the values. Each end is off by at most a bin,
  /// outwards: by no more than 1/2047 of how far the values and 0 lie apart.
  Range percentile(double percent) const;
  double bin_width() const;

 private:
  void include(int64_t bin);
  void double_width();

  Range extremes_;
  bool has_nonfinite_ = false;
  int64_t count_ = 0;
  int exponent_ = -149;  // a bin is 2^exponent_ wide
  int64_t first_ = 0;    // of counts_, in bins from 0
  std::vector<int64_t> counts_;
};

}  // namespace fettle::quantize
