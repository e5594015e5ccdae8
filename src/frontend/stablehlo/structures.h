#pragma once
// Fields of StableHLO's and CHLO's structures of numbers, in the order that their text has.

#include <span>
#include <string_view>

#include "frontend/stablehlo/module.h"

namespace fettle::stablehlo {

struct FieldDef {
  std::string_view name;
  /// What a field is where it is left out; kNone: it is left out then.
  enum class Default : uint8_t { kNone, kZero, kNoInts, kZeroFloat } missing = Default::kNone;
};
/// The fields of #stablehlo.<kind>; nothing of a kind that is not known.
std::span<const FieldDef> fields_of(std::string_view kind);
/// Puts the fields in order, and those that are missing to their defaults.
void complete(StructValue& structure);

}  // namespace fettle::stablehlo
