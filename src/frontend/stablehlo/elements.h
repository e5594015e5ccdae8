#pragma once
// Elements of dense<…> constants, from numbers, from MLIR's bytes, and back to text.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/stablehlo/module.h"
#include "graph/limits.h"

namespace fettle::stablehlo {

/// A written element: a number, or the bits of one.
struct Literal {
  enum class Kind : uint8_t { kInt, kFloat, kBits } kind = Kind::kInt;
  int64_t bits = 0;  // of kInt and kBits
  double value = 0;  // of kFloat
};

/// Numbers of one element (two, where it is complex).
inline int64_t parts_of(const ElementType& element) { return element.is_complex ? 2 : 1; }
/// Elements of a tensor of known extents. E602 they are open · E608 too many
Result<int64_t> count_elements(const Type& type, const Limits& limits);

/// literals: one a number, or those of a single element.
Result<DenseElements> elements_of(const Type& type, std::span<const Literal> literals, const Limits& limits);
/// bytes: elements as MLIR has them, or a single one. Bools may be packed, eight a byte.
Result<DenseElements> elements_of(const Type& type, std::span<const std::byte> bytes, const Limits& limits);
/// "dense<…> : tensor<…>"; long ones as hexadecimal bytes.
std::string to_text(const DenseElements& elements);

}  // namespace fettle::stablehlo
