#pragma once
// Special functions of floats, by formulas of f64: of f32 and halves the results are rounded once.

#include "frontend/stablehlo/elementwise.h"

namespace fettle::stablehlo {

/// Relative errors are of f64's, unless stated.
class SpecialFunctions {
 public:
  explicit SpecialFunctions(const Elements& e) : e_(e) {}

  Value* erfc(Value* x) const;         // rational functions of Cephes: 1e-15
  Value* erf_inv(Value* x) const;      // of f32: Giles' polynomials, 3e-7; else two steps of Halley's behind them: 1e-14
  Value* lgamma(Value* x) const;       // Lanczos: 1e-14, absolute where it is near 0
  Value* digamma(Value* x) const;      // recurrence and Stirling's series: 1e-14
  Value* zeta(Value* s, Value* q) const;  // Hurwitz's, by Euler and Maclaurin: 1e-14 for q > 0
  Value* polygamma(Value* n, Value* x) const;
  Value* bessel_i1e(Value* x) const;  // the trapezoidal rule, and a series for large numbers: 1e-14

 private:
  Value* sum(Value* x, std::initializer_list<double> c) const { return e_.polynomial(x, c); }
  const Elements& e_;
};

}  // namespace fettle::stablehlo
