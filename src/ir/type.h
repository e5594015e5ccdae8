#pragma once
// Element types: a kind, a width and a number of vector lanes.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fettle {

enum class TypeCode : uint8_t { kInt, kUInt, kFloat, kBFloat, kBool, kHandle };

/// lanes > 1 appears only in lowered code. A bool takes one byte in memory.
struct DType {
  TypeCode code = TypeCode::kFloat;
  uint8_t bits = 32;
  uint16_t lanes = 1;

  friend constexpr bool operator==(const DType&, const DType&) = default;

  constexpr bool is_int() const { return code == TypeCode::kInt || code == TypeCode::kUInt; }
  constexpr bool is_float() const { return code == TypeCode::kFloat || code == TypeCode::kBFloat; }
  constexpr bool is_bool() const { return code == TypeCode::kBool; }
  constexpr bool is_vector() const { return lanes > 1; }
  constexpr DType with_lanes(int n) const { return {code, bits, static_cast<uint16_t>(n)}; }
  constexpr DType element() const { return with_lanes(1); }
  /// Bytes of one element in memory.
  constexpr int element_bytes() const { return bits < 8 ? 1 : bits / 8; }

  /// "f32", "i8", "u8", "bf16", "bool", "handle"; with lanes "f32x16".
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
inline constexpr DType kBool{TypeCode::kBool, 1, 1};
inline constexpr DType kHandle{TypeCode::kHandle, 64, 1};

/// The inverse of DType::to_string. E101.
Result<DType> parse_dtype(std::string_view text);

}  // namespace fettle
