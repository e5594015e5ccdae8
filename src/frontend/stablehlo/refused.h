#pragma once
// Operators that nothing is made of, and why.

#include <string>

#include "frontend/stablehlo/module.h"

namespace fettle::stablehlo {

/// Why there is no entry for the operator: "nobody outside is asked …".
std::string why_refused(const Op& op);
/// Whether the name is one of an operator of StableHLO, CHLO, func or check, of any version.
bool is_operator(std::string_view name);

}  // namespace fettle::stablehlo
