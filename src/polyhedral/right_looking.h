#pragma once
// Sums and maxima over what a row has already.

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// Right-looking order: what goes on from itself in its innermost loop changes places with the loop around, so that
/// each element which is ready is added to all those that need it.
///   for j: { S(j)   for k in j: T[j] = max(T[j], T[k] + B[k, j]) }
///   →  for k: { S(k)   for j in k + 1 +: n - k - 1: T[j] = max(T[j], T[k] + B[k, j]) }
/// Elements of a row lie side by side, and become `lanes`. The name is from factorisations (Golub and Van Loan, Matrix
/// Computations, 3.2). Errors: E211 no block goes along memory in the loop around its innermost one · E227 a dependence
/// would be broken · those of AffineNest::of
Result<> look_right(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes);

}  // namespace fettle
