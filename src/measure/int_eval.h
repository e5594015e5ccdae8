#pragma once
// Integer expressions evaluated under given values of their variables.

#include <cstdint>
#include <unordered_map>

#include "base/result.h"
#include "ir/expr.h"

namespace fettle {

using IntBindings = std::unordered_map<const VarNode*, int64_t>;

/// The value of an integer or bool expression. E301 where a variable has no value, or the expression loads, calls or
/// computes with floats; E709 where it divides by zero.
Result<int64_t> evaluate_int(const Expr& e, const IntBindings& values = {});

}  // namespace fettle
