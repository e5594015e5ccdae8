#pragma once

#include "schedule/reformulation.h"

namespace fettle {

/// Divides once where many elements are divided by the same number, and multiplies by the reciprocal.
///   for i: for j: B[i, j] = f(A[i, j] / t(i))
///     →  for i:        B_inverse[i] = 1 / t(i)
///        for i: for j: B[i, j] = f(A[i, j] * B_inverse[i])
/// numbers: none.
/// Pattern: a perfect nest whose loops are bound one to one to the block's iterators, all spatial, without a predicate;
/// one store, whose value divides by something that depends on some of the iterators only. The outermost such division
/// goes. Returns B_inverse and B. Class: approximate, 1.5 epsilon. Where 1 / t overflows or is denormal, the result is
/// not useful.
extern const ReformulationDef shared_reciprocal_def;

}  // namespace fettle
