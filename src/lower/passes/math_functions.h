#pragma once
// The formulas behind vector_math.h: each takes arguments of one float type (any lanes) and returns an expression.
//
// f32, against the exact value, in units in the last place (tested in math_functions_test.cpp over all of the range):
//   exp 1, log 1, sigmoid 2.5, tanh 2.5, erf 2, rsqrt 1.5, sin and cos 1, pow 1
// exp(x * ln(2)), as it is written for 2^x, is 2^x of f32: 3.
// exp takes a table of sixteen powers where there is AVX-512: its last bits differ from those of other machines. On one
// machine a function gives the same bits in any number of lanes.
// f16 and bf16 are computed in f32 and rounded. f64: exp, log 1.5; sigmoid, tanh 3; erf 8; sin, cos 2 (|x| < 2^40); pow
// loses as many bits as the exponent of the result has. Infinities, NaNs and overflow give what C's functions give.
// Denormal results are exact in exp and its kin up to the last place; sigmoid returns zero where the result would be
// denormal. sin and cos of |x| >= 2^50 (f64: 2^40) are NaN.

#include <functional>
#include <string_view>
#include <vector>

#include "ir/expr.h"

namespace fettle {

/// Gives a value a name, so that it is computed once; or returns it as it is.
using BindValue = std::function<Expr(Expr)>;

/// True for the names that expand_math_function takes.
bool is_expanded_math(std::string_view name);
/// name(args) as arithmetic, or null if the name or the type has none.
/// scales: see vector_math.h.
Expr expand_math_function(std::string_view name, const std::vector<Expr>& args, const BindValue& bind,
                          bool scales = false);

}  // namespace fettle
