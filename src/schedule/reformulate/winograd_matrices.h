#pragma once
// The matrices of Winograd's convolution, as schedule/reformulate/winograd.h uses them.

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace fettle {

/// A fraction in lowest terms, with a positive denominator.
struct Fraction {
  int64_t num = 0, den = 1;
  double value() const { return static_cast<double>(num) / static_cast<double>(den); }
  friend bool operator==(const Fraction&, const Fraction&) = default;
};
using FractionMatrix = std::vector<std::vector<Fraction>>;

/// F(m, r): m outputs of a correlation with r taps by a = m + r - 1 products,
///   y = At [(G g) * (Bt d)]      with At m x a, G a x r, Bt a x a
/// from a - 1 points 0, 1, -1, 2, -2, 1/2, -1/2, … and the one at infinity (Cook and Toom; Lavin and Gray: Fast
/// Algorithms for Convolutional Neural Networks, 2016, section 4).
struct WinogradMatrices {
  int64_t outputs = 0, taps = 0, products = 0;
  FractionMatrix at, g, bt;

  /// How far rounding errors may be amplified in one dimension: the largest of |At| (|G| 1 * |Bt| 1).
  double amplification() const;
};

/// E202 unless m >= 1, r >= 1 and m + r - 1 <= 10.
Result<WinogradMatrices> winograd_matrices(int64_t outputs, int64_t taps);

}  // namespace fettle
