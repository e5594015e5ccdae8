#pragma once
// Instructions that exponentials are made of.

#include "target/target.h"

namespace fettle {

/// Whether the machine multiplies vectors of f32 by powers of two, and takes their fractions, in one instruction each:
/// AVX-512's vscalefps and vreduceps.
bool scales_by_powers_of_two(const Target& target);

}  // namespace fettle
