#pragma once
// Intervals and congruences of i64 values: what is known of an index without asking further.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "ir/buffer.h"

namespace fettle {

/// min <= value <= max. The two ends of int64_t stand for minus and plus infinity.
struct Interval {
  static constexpr int64_t kNegInf = INT64_MIN;
  static constexpr int64_t kPosInf = INT64_MAX;

  int64_t min = kNegInf;
  int64_t max = kPosInf;

  static constexpr Interval everything() { return {}; }
  static constexpr Interval single(int64_t value) { return {value, value}; }

  constexpr bool is_single() const { return min == max && is_bounded(); }
  constexpr bool is_bounded() const { return min != kNegInf && max != kPosInf; }
  constexpr bool is_empty() const { return min > max; }
  constexpr bool contains(int64_t value) const { return min <= value && value <= max; }
  friend constexpr bool operator==(const Interval&, const Interval&) = default;
};

namespace detail {
constexpr bool is_inf(int64_t x) { return x == Interval::kNegInf || x == Interval::kPosInf; }

/// Sums and products that stop at infinity. inf + -inf must not be asked for; 0 * inf is 0.
inline int64_t saturating_add(int64_t a, int64_t b) {
  if (is_inf(a)) return a;
  if (is_inf(b)) return b;
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return a > 0 ? Interval::kPosInf : Interval::kNegInf;
  return sum;
}
inline int64_t saturating_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t product;
  if (is_inf(a) || is_inf(b) || __builtin_mul_overflow(a, b, &product))
    return (a > 0) == (b > 0) ? Interval::kPosInf : Interval::kNegInf;
  return product;
}
}  // namespace detail

inline Interval operator+(Interval a, Interval b) {
  return {detail::saturating_add(a.min, b.min), detail::saturating_add(a.max, b.max)};
}
inline Interval operator*(Interval a, int64_t k) {
  const int64_t x = detail::saturating_mul(a.min, k), y = detail::saturating_mul(a.max, k);
  return k >= 0 ? Interval{x, y} : Interval{y, x};
}
inline Interval operator*(Interval a, Interval b) {
  const int64_t p[] = {detail::saturating_mul(a.min, b.min), detail::saturating_mul(a.min, b.max),
                       detail::saturating_mul(a.max, b.min), detail::saturating_mul(a.max, b.max)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}
inline Interval hull(Interval a, Interval b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }
inline Interval intersect(Interval a, Interval b) { return {std::max(a.min, b.min), std::min(a.max, b.max)}; }

/// The values of a / b, rounded down; everything where b may be zero or negative.
Interval floordiv(Interval a, Interval b);
/// The values of a mod b, with the divisor's sign; everything where b may be zero or negative.
Interval floormod(Interval a, Interval b);

/// value = coeff * k + base for some integer k. coeff 0: exactly base. Otherwise coeff > 0 and 0 <= base < coeff.
struct Modular {
  int64_t coeff = 1;
  int64_t base = 0;

  static constexpr Modular constant(int64_t value) { return {0, value}; }
  /// True if every value is a multiple of n (n >= 1).
  constexpr bool divisible_by(int64_t n) const { return coeff % n == 0 && base % n == 0; }
  friend constexpr bool operator==(const Modular&, const Modular&) = default;
};

Modular make_modular(int64_t coeff, int64_t base);
Modular operator+(Modular a, Modular b);
Modular operator*(Modular a, int64_t k);
Modular operator*(Modular a, Modular b);
/// What holds for the values of both.
Modular join(Modular a, Modular b);

}  // namespace fettle
