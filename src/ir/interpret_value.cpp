#include "ir/interpret_value.h"

#include <bit>
#include <limits>

namespace fettle::interp {

RoundSmall::RoundSmall(DType t) {
  const bool half = t.code == TypeCode::kFloat;
  digits = half ? 11 : 8;
  min_exponent = half ? -14 : -126;
  largest = half ? 65504.0 : 0x1.fep127;
}

double RoundSmall::operator()(double x) const {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), min_exponent);
  const double unit = std::ldexp(1.0, exponent - digits + 1);
  const double rounded = std::nearbyint(x / unit) * unit;
  return std::fabs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

double round_to(double x, DType type) {
  if (type.bits == 32) return RoundF32()(x);
  return type.bits == 16 ? RoundSmall(type)(x) : x;
}

uint16_t encode_small(double x, DType type) {
  x = RoundSmall(type)(x);
  if (type.code == TypeCode::kBFloat)
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16 | (std::isnan(x) ? 0x40 : 0));
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  x = std::fabs(x);
  if (std::isnan(x)) return sign | 0x7e00;
  if (std::isinf(x)) return sign | 0x7c00;
  if (x < 0x1p-14) return sign | static_cast<uint16_t>(x * 0x1p24);  // zero and subnormals
  const int exponent = std::ilogb(x);
  return sign | static_cast<uint16_t>((exponent + 15) << 10 | static_cast<int>((std::ldexp(x, -exponent) - 1) * 1024));
}

double decode_small(uint16_t bits, DType type) {
  if (type.code == TypeCode::kBFloat) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * fraction * 0x1p-24;
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

Storage storage_of(DType t) {
  switch (t.code) {
    case TypeCode::kFloat:
      return t.bits == 32 ? Storage::kF32 : t.bits == 64 ? Storage::kF64 : Storage::kF16;
    case TypeCode::kBFloat:
      return Storage::kBF16;
    case TypeCode::kInt:
      return t.bits <= 8 ? Storage::kI8 : t.bits == 16 ? Storage::kI16 : t.bits == 32 ? Storage::kI32 : Storage::kI64;
    case TypeCode::kUInt:
      return t.bits <= 8 ? Storage::kU8 : t.bits == 16 ? Storage::kU16 : t.bits == 32 ? Storage::kU32 : Storage::kI64;
    case TypeCode::kBool:
      return Storage::kBool;
    default:
      break;
  }
  return Storage::kI64;
}

void poison(char* begin, int64_t size_bytes, DType type) {
  if (!type.is_float()) {
    std::memset(begin, 0xcd, static_cast<size_t>(size_bytes));
    return;
  }
  const Storage storage = storage_of(type);
  const Value nan = of_float(std::numeric_limits<double>::quiet_NaN());
  for (int64_t at = 0; at + type.element_bytes() <= size_bytes; at += type.element_bytes())
    write(storage, begin + at, nan);
}

}  // namespace fettle::interp
