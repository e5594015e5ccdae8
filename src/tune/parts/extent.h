#pragma once
// Extents as the parts use them. One that is open comes with the value that it typically has, by which choices are
// made.

#include <algorithm>

#include "arith/int_eval.h"

namespace fettle {

/// An extent and what choices take it for: its value where it is a constant, else the one for typical integer
/// parameters, at least 1. What is chosen may depend on `value`; what is correct may depend on `expr` alone, or on what
/// is `constant`.
struct Extent {
  Expr expr;
  int64_t value = 1;
  bool constant = false;

  /// It is this constant.
  bool is(int64_t n) const { return constant && value == n; }
};

/// `typical`: typical_values of the program. What depends on loops around counts as in their first iterations.
inline Extent extent_of(const Expr& expr, const IntEnv& typical) {
  if (const int64_t* known = as_int(expr)) return {expr, *known, true};
  return {expr, std::max<int64_t>(1, estimate_int(expr, typical, 1)), false};
}

}  // namespace fettle
