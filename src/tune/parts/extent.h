#pragma once
// Extents as the parts use them. One that is open comes with a usual value, by which choices are made.

#include "ir/expr.h"

namespace fettle {

/// An extent and how much it is likely to be: its value where it is a constant, else kUsual. What is chosen may depend
/// on `value`; what is correct may depend on `expr` alone, or on what is `constant`.
struct Extent {
  static constexpr int64_t kUsual = 256;

  Expr expr;
  int64_t value = kUsual;
  bool constant = false;

  /// It is this constant.
  bool is(int64_t n) const { return constant && value == n; }
};

inline Extent extent_of(const Expr& expr) {
  const int64_t* known = as_int(expr);
  return {expr, known ? *known : Extent::kUsual, known != nullptr};
}

}  // namespace fettle
