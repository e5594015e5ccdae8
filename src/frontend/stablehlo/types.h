#pragma once
// Types by their names, and names of types.

#include <optional>
#include <string>
#include <string_view>

#include "frontend/stablehlo/module.h"

namespace fettle::stablehlo {

/// "f32", "ui8", "i1", "index", "f8E4M3FN". What no DType is has its name in `unknown`; null: nobody's name.
std::optional<ElementType> element_named(std::string_view name);
/// The inverse, of every element type: "complex<f32>", "!quant.uniform<i8:f32, 0.5>".
std::string element_name(const ElementType& element);

/// A number of a float type that reads back as the same: "0.5", "1.0e-05"; its bits ("0x7FC00000") if not finite.
std::string float_text(DType dtype, double value);

/// Whether they are one type, quantization included.
bool same_type(const Type& a, const Type& b);

/// A float of less than 16 bits that is no DType: its layout.
struct SmallFloat {
  std::string_view name;
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;
};
/// Null: the name is none of theirs.
const SmallFloat* small_float_named(std::string_view name);
/// The code of the nearest number, the even one of two. What is too large saturates, or becomes infinity.
uint8_t small_float_code(const SmallFloat& format, double value);

}  // namespace fettle::stablehlo
