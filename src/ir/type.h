#pragma once
// Element types: a kind, a width and a number of vector lanes.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fettle {

enum class TypeCode : uint8_t {
  kInt,
  kUInt,
  kFloat,
  kBFloat,
  kBool,
  kHandle,
  // Floats of 8 and 4 bits, by the names that OCP and ONNX give them. They are types of tensors of a graph only: its
  // programs see their codes, as u8 (graph/small_types.h).
  kE4M3FN,
  kE4M3FNUZ,
  kE5M2,
  kE5M2FNUZ,
  kE8M0,
  kE2M1,
  kString,  // likewise: programs see a string's number, as i64 (graph/strings.h)
};

/// lanes > 1 appears only in lowered code. A bool takes one byte in memory.
struct DType {
  TypeCode code = TypeCode::kFloat;
  uint8_t bits = 32;
  uint16_t lanes = 1;

  friend constexpr bool operator==(const DType&, const DType&) = default;

  constexpr bool is_int() const { return code == TypeCode::kInt || code == TypeCode::kUInt; }
  constexpr bool is_float() const { return code == TypeCode::kFloat || code == TypeCode::kBFloat; }
  /// A float of 8 or 4 bits; is_float() says no, for nothing computes with it.
  constexpr bool is_small_float() const { return code >= TypeCode::kE4M3FN && code <= TypeCode::kE2M1; }
  constexpr bool is_bool() const { return code == TypeCode::kBool; }
  constexpr bool is_string() const { return code == TypeCode::kString; }
  constexpr bool is_vector() const { return lanes > 1; }
  constexpr DType with_lanes(int n) const { return {code, bits, static_cast<uint16_t>(n)}; }
  constexpr DType element() const { return with_lanes(1); }
  /// Bytes of one element in memory. Integers of 2 and 4 bits and small floats take one each.
  constexpr int element_bytes() const { return bits < 8 ? 1 : bits / 8; }

  /// "f32", "i8", "u8", "bf16", "bool", "handle", "f8e4m3fn"; with lanes "f32x16".
  std::string to_string() const;
};

inline constexpr DType kF32{TypeCode::kFloat, 32, 1};
inline constexpr DType kF64{TypeCode::kFloat, 64, 1};
inline constexpr DType kF16{TypeCode::kFloat, 16, 1};
inline constexpr DType kBF16{TypeCode::kBFloat, 16, 1};
inline constexpr DType kI8{TypeCode::kInt, 8, 1};
inline constexpr DType kI16{TypeCode::kInt, 16, 1};
inline constexpr DType kI32{TypeCode::kInt, 32, 1};
/// The type of every loop variable and index.
inline constexpr DType kI64{TypeCode::kInt, 64, 1};
inline constexpr DType kU8{TypeCode::kUInt, 8, 1};
inline constexpr DType kU16{TypeCode::kUInt, 16, 1};
inline constexpr DType kU32{TypeCode::kUInt, 32, 1};
inline constexpr DType kU64{TypeCode::kUInt, 64, 1};
// Integers of 4 and 2 bits are types of tensors of a graph only, too: programs see i8 and u8.
inline constexpr DType kI4{TypeCode::kInt, 4, 1};
inline constexpr DType kU4{TypeCode::kUInt, 4, 1};
inline constexpr DType kI2{TypeCode::kInt, 2, 1};
inline constexpr DType kU2{TypeCode::kUInt, 2, 1};
inline constexpr DType kF8E4M3FN{TypeCode::kE4M3FN, 8, 1};
inline constexpr DType kF8E4M3FNUZ{TypeCode::kE4M3FNUZ, 8, 1};
inline constexpr DType kF8E5M2{TypeCode::kE5M2, 8, 1};
inline constexpr DType kF8E5M2FNUZ{TypeCode::kE5M2FNUZ, 8, 1};
inline constexpr DType kF8E8M0{TypeCode::kE8M0, 8, 1};
inline constexpr DType kF4E2M1{TypeCode::kE2M1, 4, 1};
inline constexpr DType kBool{TypeCode::kBool, 1, 1};
inline constexpr DType kHandle{TypeCode::kHandle, 64, 1};
inline constexpr DType kString{TypeCode::kString, 64, 1};

/// The inverse of DType::to_string. E101.
Result<DType> parse_dtype(std::string_view text);

}  // namespace fettle
