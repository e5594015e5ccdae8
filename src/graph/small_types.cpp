#include "graph/small_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace fettle {
namespace {

/// A float of a sign, an exponent and a fraction.
struct Format {
  TypeCode code;
  int exponent_bits, fraction_bits, bias;
  int greatest;  // the code of the largest number
  int overflow;  // what is too large becomes, where it does not saturate
  int nan;
  bool has_negative_zero = true;
  bool nan_has_sign = true;
  bool has_infinity = false;
  bool has_overflow = true;

  int bits() const { return 1 + exponent_bits + fraction_bits; }
  int sign() const { return 1 << (bits() - 1); }
};
constexpr Format kFormats[] = {
    {TypeCode::kE4M3FN, 4, 3, 7, 0x7e, 0x7f, 0x7f},
    {TypeCode::kE4M3FNUZ, 4, 3, 8, 0x7f, 0x80, 0x80, false, false},
    {TypeCode::kE5M2, 5, 2, 15, 0x7b, 0x7c, 0x7e, true, true, true},
    {TypeCode::kE5M2FNUZ, 5, 2, 16, 0x7f, 0x80, 0x80, false, false},
    {TypeCode::kE2M1, 2, 1, 1, 0x7, 0x7, 0x8, true, false, false, false},
};
constexpr int kPowerNan = 0xff, kGreatestPower = 0xfe, kPowerBias = 127;

const Format& format_of(DType dtype) {
  for (const Format& format : kFormats)
    if (format.code == dtype.code) return format;
  FETTLE_UNREACHABLE();
}

bool is_nan(const Format& f, int code) {
  if (!f.has_overflow) return false;
  if (!f.nan_has_sign) return code == f.nan;
  return f.has_infinity ? (code & ~f.sign()) > f.overflow : (code & ~f.sign()) == f.nan;
}

}  // namespace

double small_float_value(DType dtype, uint8_t byte) {
  if (dtype == kF8E8M0) return byte == kPowerNan ? std::nan("") : std::ldexp(1.0, byte - kPowerBias);
  const Format& f = format_of(dtype);
  const int code = byte & (f.sign() * 2 - 1), magnitude = code & ~f.sign();
  if (is_nan(f, code)) return std::nan("");
  const double sign = code & f.sign() ? -1 : 1;
  if (f.has_infinity && magnitude == f.overflow) return sign * std::numeric_limits<double>::infinity();
  const int exponent = magnitude >> f.fraction_bits, fraction = magnitude & ((1 << f.fraction_bits) - 1);
  const int scale = std::max(exponent, 1) - f.bias - f.fraction_bits;
  return sign * std::ldexp(exponent == 0 ? fraction : fraction + (1 << f.fraction_bits), scale);
}

uint8_t small_float_code(DType dtype, double value) {
  if (dtype == kF8E8M0) {
    if (std::isnan(value)) return kPowerNan;
    int code = 0;
    while (code < kGreatestPower && std::ldexp(1.0, code - kPowerBias) < std::fabs(value)) ++code;
    return static_cast<uint8_t>(code);
  }
  const Format& f = format_of(dtype);
  if (std::isnan(value)) return static_cast<uint8_t>(f.nan);
  int best = 0;
  double least = std::fabs(value);
  for (int code = 1; code <= f.greatest; ++code) {
    const double distance = std::fabs(std::fabs(value) - small_float_value(dtype, static_cast<uint8_t>(code)));
    if (distance < least || (distance == least && code % 2 == 0) || std::isinf(value)) {
      best = code;
      least = distance;
    }
  }
  const bool negative = std::signbit(value) && (best != 0 || f.has_negative_zero);
  return static_cast<uint8_t>(negative ? best | f.sign() : best);
}

namespace {

Expr bit_and(const Expr& a, int64_t mask) { return binary(BinaryOp::kBitAnd, a, int_imm(mask, a.dtype())); }
Expr bit_or(const Expr& a, const Expr& b) { return binary(BinaryOp::kBitOr, a, b); }
Expr shifted_left(const Expr& a, int by) { return by == 0 ? a : binary(BinaryOp::kShl, a, int_imm(by, a.dtype())); }
Expr shifted_right(const Expr& a, int by) { return by == 0 ? a : binary(BinaryOp::kShr, a, int_imm(by, a.dtype())); }
Expr bits_of(const Expr& f32) { return call("bitcast", {f32}, kI32); }
Expr float_of(const Expr& bits) { return call("bitcast", {bits}, kF32); }

constexpr int kFractionBits = 23, kBias = 127;
constexpr int64_t kInfinity = 0x7f800000, kMagnitude = 0x7fffffff;

// A number in single precision. What a double loses is kept in the last bit ("round to odd"), so that rounding to few
// bits afterwards rounds once.
Expr to_single(const Expr& value) {
  if (value.dtype() != kF64) return cast(kF32, value);
  const Expr near = cast(kF32, value), bits = bits_of(near), back = cast(kF64, near);
  const Expr is_beyond = lt(math("abs", {value}), math("abs", {back}));
  const Expr below = float_of(bit_or(bits - select(is_beyond, int_imm(1, kI32), int_imm(0, kI32)), int_imm(1, kI32)));
  // Infinity stands for doubles that it is not, which are too large either way. NaN differs from all.
  const Expr is_exact = logical_or(eq(back, value), ge(bit_and(bits, kMagnitude), int_imm(kInfinity, kI32)));
  return select(is_exact, near, below);
}

Expr power_code(const Expr& value, bool saturate, PowerRounding rounding) {
  const Expr bits = bit_and(bits_of(to_single(value)), kMagnitude);
  const Expr exponent = shifted_right(bits, kFractionBits), fraction = bit_and(bits, (1 << kFractionBits) - 1);
  const auto number = [](int64_t n) { return int_imm(n, kI32); };
  Expr rounded = exponent;
  if (rounding == PowerRounding::kUp) {
    rounded = exponent + select(ne(fraction, number(0)), number(1), number(0));
  } else if (rounding == PowerRounding::kNearest) {
    // Half goes up, but from a subnormal number, whose neighbour is half as far away.
    const int64_t half = 1 << (kFractionBits - 1);
    const Expr is_above = lt(number(half), fraction);
    const Expr is_half = logical_and(eq(fraction, number(half)), lt(number(0), exponent));
    rounded = exponent + select(logical_or(is_above, is_half), number(1), number(0));
  }
  if (saturate) rounded = min(rounded, number(kGreatestPower));
  return cast(kU8, select(ge(bits, number(kInfinity)), number(kPowerNan), rounded));
}

}  // namespace

Expr small_float_value(DType dtype, const Expr& byte) {
  const auto number = [](int64_t n) { return int_imm(n, kI32); };
  const Expr whole = cast(kI32, byte);
  const auto nan = [] { return float_imm(std::nan(""), kF32); };
  if (dtype == kF8E8M0) {
    const Expr least = number(1 << (kFractionBits - 1));  // 2^-127, which is subnormal
    const Expr bits = select(eq(whole, number(0)), least, shifted_left(whole, kFractionBits));
    return select(eq(whole, number(kPowerNan)), nan(), float_of(bits));
  }
  const Format& f = format_of(dtype);
  const Expr magnitude = bit_and(whole, f.sign() - 1);
  const Expr normal =
      shifted_left(magnitude, kFractionBits - f.fraction_bits) + number(int64_t{kBias - f.bias} << kFractionBits);
  const Expr subnormal =
      bits_of(cast(kF32, magnitude) * float_imm(std::ldexp(1.0, 1 - f.bias - f.fraction_bits), kF32));
  Expr bits = select(lt(magnitude, number(1 << f.fraction_bits)), subnormal, normal);
  if (f.has_infinity) bits = select(eq(magnitude, number(f.overflow)), number(kInfinity), bits);
  bits = bit_or(bits, shifted_left(bit_and(whole, f.sign()), 32 - f.bits()));
  const Expr value = float_of(bits);
  if (!f.has_overflow) return value;
  const Expr is_nan = !f.nan_has_sign  ? eq(whole, number(f.nan))
                      : f.has_infinity ? lt(number(f.overflow), magnitude)
                                       : eq(magnitude, number(f.nan));
  return select(is_nan, nan(), value);
}

Expr small_float_code(DType dtype, const Expr& value, bool saturate, PowerRounding power) {
  if (dtype == kF8E8M0) return power_code(value, saturate, power);
  const auto number = [](int64_t n) { return int_imm(n, kI32); };
  const Format& f = format_of(dtype);
  const Expr bits = bits_of(to_single(value)), magnitude = bit_and(bits, kMagnitude);
  // Half of what goes, less one where the last bit that stays is even: carries run on into the exponent.
  const int dropped = kFractionBits - f.fraction_bits;
  const Expr even = bit_and(shifted_right(magnitude, dropped), 1);
  // Numbers far above the largest do not overflow the sum.
  const Expr bounded = min(magnitude, number(kInfinity));
  const Expr normal = shifted_right(bounded + number((int64_t{1} << (dropped - 1)) - 1) + even, dropped) -
                      number(int64_t{kBias - f.bias} << f.fraction_bits);
  const Expr scaled = float_of(magnitude) * float_imm(std::ldexp(1.0, f.bias - 1 + f.fraction_bits), kF32);
  const Expr least_normal = number(int64_t{kBias + 1 - f.bias} << kFractionBits);
  // Where a number is not subnormal, its product may be too large for the cast, and is not used.
  Expr code = select(lt(magnitude, least_normal), cast(kI32, math("round", {scaled})), normal);
  const Expr largest = number(f.greatest);
  code = saturate || !f.has_overflow ? min(code, largest) : select(lt(largest, code), number(f.overflow), code);
  const Expr is_negative = lt(bits, number(0));
  const Expr has_sign = f.has_negative_zero ? is_negative : logical_and(is_negative, ne(code, number(0)));
  code = bit_or(code, select(has_sign, number(f.sign()), number(0)));
  Expr nan = number(f.nan);
  if (f.nan_has_sign) nan = bit_or(nan, select(is_negative, number(f.sign()), number(0)));
  return cast(kU8, select(lt(number(kInfinity), magnitude), nan, code));
}

Expr wrapped_to(DType dtype, const Expr& value) {
  const Expr whole = cast(kI32, value);
  const int unused = 32 - dtype.bits;
  if (dtype.code == TypeCode::kUInt) return cast(kU8, bit_and(whole, greatest_int(dtype)));
  return cast(kI8, shifted_right(shifted_left(whole, unused), unused));
}

}  // namespace fettle
