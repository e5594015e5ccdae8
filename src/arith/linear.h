#pragma once
// Linear forms: sum of coefficient * term + constant. Terms are variables or opaque i64 expressions.

#include <optional>
#include <vector>

#include "base/small_vector.h"
#include "ir/buffer.h"
#include "ir/compare.h"

namespace fettle {

struct LinearTerm {
  Expr expr;          // neither a sum nor a constant
  int64_t coeff = 0;  // never 0 within a form
};

/// Terms are distinct (structurally). Arithmetic wraps, as that of i64 does.
struct LinearForm {
  SmallVector<LinearTerm, 3> terms;
  int64_t constant = 0;

  LinearForm() = default;
  explicit LinearForm(int64_t value) : constant(value) {}

  bool is_constant() const { return terms.empty(); }
  bool is_zero() const { return terms.empty() && constant == 0; }
  /// The coefficient of a term (0: absent).
  int64_t coeff_of(const Expr& term) const;

  void add_constant(int64_t value, int64_t scale = 1);
  /// Adds coeff * term, where `term` is opaque; drops the term if its coefficient becomes 0.
  void add_term(const Expr& term, int64_t coeff);
  void add(const LinearForm& other, int64_t scale = 1);
  void scale(int64_t k);
  /// The greatest common divisor of the coefficients (0: there are none); the constant does not count.
  int64_t coeff_gcd() const;
};

}  // namespace fettle

FETTLE_VECTORS_FROM_POOL(fettle::LinearForm);

namespace fettle {

/// Splits sums, differences and products with constants; everything else becomes an opaque term as it stands (no
/// simplification: that is Analyzer::linear).
LinearForm linear_form(const Expr& e);
/// Back to an expression, terms in the order of the form: c0*t0 + c1*t1 - … + constant.
Expr to_expr(const LinearForm& form);

/// e == coeff * var + rest, where neither uses `var`, and coeff may be any expression (a run-time stride).
/// Nothing if e is not linear in var. Sums, products and selections free of var are looked through; the result is
/// not simplified.
struct VarSplit {
  Expr coeff, rest;
};
std::optional<VarSplit> split_linear(const Expr& e, const VarNode* var);

}  // namespace fettle
