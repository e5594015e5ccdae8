#pragma once
// Functions of one number that the loop language has no name for, by formulas over those that it has.

#include "ir/expr.h"

namespace fettle::elementary {

Expr tangent(const Expr& x);
Expr hyperbolic_sine(const Expr& x);
Expr hyperbolic_cosine(const Expr& x);
Expr area_sine(const Expr& x);
Expr area_cosine(const Expr& x);
Expr area_tangent(const Expr& x);
Expr arc_tangent(const Expr& x);
Expr arc_sine(const Expr& x);
Expr arc_cosine(const Expr& x);

}  // namespace fettle::elementary
