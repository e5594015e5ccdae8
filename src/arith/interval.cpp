#include "arith/interval.h"

namespace fettle {
namespace {

// Floor division where either side may be infinite; b > 0.
int64_t divide(int64_t a, int64_t b) {
  if (detail::is_inf(a)) return a;
  if (b == Interval::kPosInf) return a < 0 ? -1 : 0;
  return floordiv_int(a, b);
}

}  // namespace

Interval floordiv(Interval a, Interval b) {
  if (b.min <= 0) return {};
  const int64_t p[] = {divide(a.min, b.min), divide(a.min, b.max), divide(a.max, b.min), divide(a.max, b.max)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

Interval floormod(Interval a, Interval b) {
  if (b.min <= 0) return {};
  if (b.is_single() && a.is_bounded() && floordiv_int(a.min, b.min) == floordiv_int(a.max, b.min))
    return {floormod_int(a.min, b.min), floormod_int(a.max, b.min)};
  Interval result{0, b.max == Interval::kPosInf ? b.max : b.max - 1};
  if (a.min >= 0) {
    result.max = std::min(result.max, a.max);  // x mod b <= x
    if (a.max < b.min) result.min = a.min;     // x mod b == x
  }
  return result;
}

Modular make_modular(int64_t coeff, int64_t base) {
  if (coeff == INT64_MIN) return {};
  if (coeff < 0) coeff = -coeff;
  return {coeff, coeff == 0 ? base : floormod_int(base, coeff)};
}

Modular operator+(Modular a, Modular b) {
  int64_t base;
  if (__builtin_add_overflow(a.base, b.base, &base)) return {};
  return make_modular(std::gcd(a.coeff, b.coeff), base);
}

Modular operator*(Modular a, int64_t k) {
  int64_t coeff, base;
  if (__builtin_mul_overflow(a.coeff, k, &coeff) || __builtin_mul_overflow(a.base, k, &base)) return {};
  return make_modular(coeff, base);
}

Modular operator*(Modular a, Modular b) {
  // (p x + q)(r y + s) = pr xy + ps x + qr y + qs
  int64_t pr, ps, qr, qs;
  if (__builtin_mul_overflow(a.coeff, b.coeff, &pr) || __builtin_mul_overflow(a.coeff, b.base, &ps) ||
      __builtin_mul_overflow(a.base, b.coeff, &qr) || __builtin_mul_overflow(a.base, b.base, &qs))
    return {};
  if (ps == INT64_MIN || qr == INT64_MIN || pr == INT64_MIN) return {};
  return make_modular(std::gcd(pr, std::gcd(ps, qr)), qs);
}

Modular join(Modular a, Modular b) {
  int64_t difference;
  if (__builtin_sub_overflow(a.base, b.base, &difference) || difference == INT64_MIN) return {};
  return make_modular(std::gcd(std::gcd(a.coeff, b.coeff), difference), a.base);
}

}  // namespace fettle
