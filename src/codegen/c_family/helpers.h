#pragma once
// Functions that printed code calls where C's operator differs from that of the loop language.

#include <string>
#include <string_view>
#include <vector>

#include "codegen/c_family/dialect.h"

namespace fettle::c_family {

/// The definition of a helper, and the helpers that it calls. Names are an operation and types:
///   add_i32 sub_ mul_ shl_ shr_ floordiv_ floormod_ min_ max_ abs_ lt_ le_   of an integer type (min_, max_ of floats
///   too) i8_from_f32 …       float → integer, truncated and saturated; NaN is zero bits_of_f32, f32_of_bits (and f64)
///   the same bits as another type f16_from_f32, f16_from_f64, f32_from_f16, round_f16, round_f16_f64 (and bf16) 16-bit
///   floats is_nan_f32, sigmoid_f32, rsqrt_f32 (and f64)
/// Definitions are in terms of the dialect's types. Nothing here has undefined behaviour for any argument but a zero
/// divisor.
struct Helper {
  std::string definition;
  std::vector<std::string> uses;
};
Helper helper(std::string_view name, const Dialect& dialect);

}  // namespace fettle::c_family
