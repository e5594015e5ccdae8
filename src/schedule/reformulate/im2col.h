#pragma once

#include "schedule/reformulation.h"

namespace fettle {

/// A convolution as a matrix product: the windows of an input become rows of a matrix.
///   for h, w, o: for r, q, c: C[h, w, o] += A[h*2 + r, w*2 + q, c] * F[r, q, c, o]
///     →  for h, w, r, q, c:   A_col[h*W + w, (r*Q + q)*K + c] = A[h*2 + r, w*2 + q, c]
///        for m, o: for k:     C[m // W, m % W, o] += A_col[m, k] * F[k // (Q*K), k // K % Q, k % K, o]
/// numbers: [the number of the block's read that is A]
/// Pattern: a reduction in a plain nest; A is read at one place, inside its bounds without a condition, and one of its
/// indices depends on both the output and the reduction.
/// Returns A_col and C. Class: exact (the terms keep their order). Costs a buffer of the window's size times A, about.
extern const ReformulationDef im2col_def;

}  // namespace fettle
