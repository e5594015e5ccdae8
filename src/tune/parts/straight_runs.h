#pragma once
// Splits loops along which the access bends: turned back at a border, repeated beyond it, begun anew in the middle.

#include <cstdint>
#include <vector>

#include "tune/parts/structure.h"

namespace fettle {

/// Iterations of the loop `iter`, cut into as few consecutive runs as it takes for every load to move by a constant
/// step within each. Empty where that is one run, more than a few, or what other loops decide.
///   reflected by 3 around 56: A[min(|w - 3|, 110 - |w - 3|)]   →   {4, 55, 3}
///   repeated by 2 around 56:  A[clamp(w - 2, 0, 55)]           →   {3, 55, 2}
std::vector<int64_t> straight_runs(const BlockStructure& block, size_t iter);

}  // namespace fettle
