#pragma once
// Everything that no other rule takes: elementwise work, copies, transposes, reductions without a vector iterator.
//
//   for i: for j: B[i, j] = f(A[i, j])   →   parallel i: for j0: for j1 (vectorized): B[i, j] = f(A[i, j])
//
// Where a step is refused it is left out: a plain serial nest is the last resort.

#include "tune/space/rule.h"

namespace fettle {

extern const SketchRule loop_nest_def;

}  // namespace fettle
