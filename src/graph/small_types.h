#pragma once
// Element types of less than a byte, and floats of 8 bits: what their codes mean.
//
// A tensor of such a type lies with one byte an element. An integer's byte is its value (an i8 or u8 within its range);
// a float's is its code. Programs see these bytes: operators that only move elements move them, and Cast,
// QuantizeLinear and DequantizeLinear convert them. No other operator takes them.

#include <cstdint>
#include <string_view>

#include "ir/expr.h"
#include "ir/type.h"

namespace fettle {

/// Integers of 2 and 4 bits, floats of 4 and 8.
constexpr bool is_small(DType dtype) { return dtype.is_small_float() || (dtype.is_int() && dtype.bits < 8); }

/// The type as which programs see elements of `dtype`: i8 or u8 where it is small, i64 of strings.
constexpr DType program_dtype(DType dtype) {
  if (dtype.is_string()) return kI64;
  return !is_small(dtype) ? dtype : dtype.code == TypeCode::kInt ? kI8 : kU8;
}

/// The value of a small float's code; other bits of the byte than its own are ignored.
double small_float_value(DType dtype, uint8_t code);
/// The code of the number next to `value`, the even one of two; of e8m0 the greater. What is too large saturates.
uint8_t small_float_code(DType dtype, double value);

/// How a float becomes one of e8m0, which has powers of two only: ONNX's round_mode of Cast.
enum class PowerRounding : uint8_t { kUp, kDown, kNearest };

/// The value of a code (u8) in single precision; every one is exact.
Expr small_float_value(DType dtype, const Expr& code);
/// The code (u8) of a number (f16, bf16, f32, f64), rounded once, to the nearest and to even; of e8m0 as `power` says.
/// What is too large becomes the largest number; unless `saturate`, infinity or NaN. e2m1 has neither and always
/// saturates.
Expr small_float_code(DType dtype, const Expr& value, bool saturate, PowerRounding power = PowerRounding::kUp);

/// An integer of any type as one of 2 or 4 bits, in its byte: the low bits count.
Expr wrapped_to(DType dtype, const Expr& value);

/// The least and the greatest integer of a type of at most 32 bits.
constexpr int64_t least_int(DType dtype) {
  return dtype.code == TypeCode::kUInt ? 0 : -(int64_t{1} << (dtype.bits - 1));
}
constexpr int64_t greatest_int(DType dtype) {
  return (int64_t{1} << (dtype.bits - (dtype.code == TypeCode::kUInt ? 0 : 1))) - 1;
}

}  // namespace fettle
