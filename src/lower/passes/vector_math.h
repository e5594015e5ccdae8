#pragma once
// Expands exp, log, tanh, erf, sigmoid, rsqrt, sin, cos and pow into arithmetic on lanes, without a mathematics
// library.

#include "ir/func.h"

namespace fettle {

/// Replaces calls of those functions by arithmetic, with intermediate values in Lets around the statement:
///   C[ramp(i, 1, 16)] = exp(A[ramp(i, 1, 16)])
/// → let x = A[…]: let t = fma(x, log2(e), …): … C[…] = p * s
/// Below a choice: C[i] = select(c, exp(A[i]), y)  → let x = select(c, A[i], 0): … C[i] = select(c, p * s, y)
/// What is left of calls are those that machines have (sqrt, floor, ceil, trunc, round, abs, fma, isnan) and `bitcast`.
/// Accuracy: math_functions.h. A Func without such calls is returned as it is.
/// scales: the machine multiplies vectors of f32 by powers of two in one instruction, and takes their fractions
/// (target/scaling.h).
Func expand_vector_math(const Func& func, bool scales = false);

}  // namespace fettle
