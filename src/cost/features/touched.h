#pragma once
// What loops touch through one access: elements, in runs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "base/small_vector.h"

namespace fettle {

struct Touched {
  double elements = 1, run = 1;  // distinct ones; how many lie in a row
  /// Cache lines of 64 bytes.
  double lines(double element_bytes) const {
    return std::max(1.0, elements / run) * std::ceil(run * element_bytes / 64);
  }
};

/// What the loops from number `from` inwards touch by an access that iterations of loop i move by strides[i] elements;
/// extent(i): how often loop i runs.
template <class Extent>
Touched touched_by(std::span<const int64_t> strides, size_t from, const Extent& extent) {
  SmallVector<std::pair<int64_t, double>, 16> steps;
  for (size_t i = from; i < strides.size(); ++i)
    if (strides[i] != 0 && extent(i) > 1) steps.emplace_back(std::abs(strides[i]), extent(i));
  std::sort(steps.begin(), steps.end());
  Touched touched;
  for (const auto& [stride, count] : steps) {
    // Closer together than what is there is long: one run grows (sliding windows overlap).
    if (static_cast<double>(stride) <= touched.run) {
      const double longer = touched.run + static_cast<double>(stride) * (count - 1);
      touched.elements *= longer / touched.run;
      touched.run = longer;
    } else {
      touched.elements *= count;
    }
  }
  return touched;
}

}  // namespace fettle
