#pragma once
// Affine functions of isl's as expressions.

#include <vector>

#include "analysis/affine/isl_context.h"
#include "ir/expr.h"

namespace fettle {

/// An affine function of a statement's loops as an expression of `inputs`. Null: it has parameters.
Expr row_of(const isl::aff& aff, const std::vector<Var>& inputs);

}  // namespace fettle
