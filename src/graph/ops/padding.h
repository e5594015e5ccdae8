#pragma once
// Padding as general operators have it: between elements, around them, and negative.

#include <cstdint>
#include <vector>

#include "graph/passes/lowering.h"

namespace fettle::ops {

/// x with factor - 1 times `value`, a scalar, between its elements along the axis.
Value* dilated(passes::Lowering& g, Value* x, int64_t axis, int64_t factor, Value* value);
/// x with so many times `value` before and after it in each dim; what a negative number says is cut off.
Value* padded(passes::Lowering& g, Value* x, const Shape& before, const Shape& after, Value* value);
/// x backwards along these axes.
Value* reversed(passes::Lowering& g, Value* x, const std::vector<int64_t>& axes);

}  // namespace fettle::ops
