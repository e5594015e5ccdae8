#pragma once
// Attributes of operators that may be left out.

#include "frontend/stablehlo/module.h"

namespace fettle::stablehlo {

/// Puts attributes that have a default, and are missing, to it. A result_accuracy that asks for nothing is left out.
void complete(Op& op);

}  // namespace fettle::stablehlo
