#pragma once
// VHLO: StableHLO's operators by versions, and what they are today.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "frontend/stablehlo/module.h"

namespace fettle::stablehlo {

/// The oldest version of StableHLO that has portable artifacts, and the newest whose operators are all known.
inline constexpr std::string_view kOldestVersion = "0.9.0";
inline constexpr std::string_view kNewestVersion = "1.20.0";

/// Names of the attributes of "add_v1", in their order, between blanks. Nothing: the operator is not known.
std::optional<std::string_view> vhlo_attributes(std::string_view op);
/// Operators of all versions, by their names without a version, those of func among them.
std::set<std::string, std::less<>> vhlo_operators();
/// Makes a VHLO operator what StableHLO or func has today. in_function: its block is a function's.
/// E602 an attribute is missing, or of another kind
Result<> from_vhlo(Op& op, bool in_function);

}  // namespace fettle::stablehlo
