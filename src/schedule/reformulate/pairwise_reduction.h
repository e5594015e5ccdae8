#pragma once

#include "schedule/reformulation.h"

namespace fettle {

/// Reduces a power of two of terms by halves, so that all pairs of a step can be lanes of vectors.
///   for i: for k in 8: C[i] (+)= f(i, k)
///     →  for i: for p in 4: C_4[i, p] = f(i, p) + f(i, p + 4)
///        for i: for p in 2: C_2[i, p] = C_4[i, p] + C_4[i, p + 2]
///        for i:             C[i] = C_2[i, 0] + C_2[i, 1]
/// numbers: none.
/// Pattern: that of split_reduction, the extent of the reduction 2, 4, 8, …, at most 4096.
/// Returns C_4, C_2, …, C. Class: reassociating. Costs a small buffer a step; saves the wait of each term for the one
/// before.
extern const ReformulationDef pairwise_reduction_def;

}  // namespace fettle
