#pragma once
// Expressions as Python sees them.

#include <optional>
#include <string>

#include "binding.h"
#include "ir/expr.h"

namespace fettle::python {

/// An expression and how deep it is: what walks it is recursive, so depth has a limit.
struct PyExpr {
  Expr expr;
  int depth = 1;
};
inline constexpr int kMaxDepth = 400;

/// An expression, an axis, or a number, which takes the type `like` where one is given (else i64 or f32). TypeError for
/// anything else; E709 where a number does not fit the type.
PyExpr to_expr(nb::handle value, std::optional<DType> like = std::nullopt);
/// An index or extent: of type i64.
PyExpr to_index(nb::handle value, const char* what);
/// "f32" or "float32".
DType to_dtype(const std::string& name);
/// As numpy names it; bf16 is "bfloat16".
std::string numpy_name(DType dtype);
/// E709 where `name` cannot be one in a program's text.
const std::string& checked_name(const std::string& name, const char* what);

/// + - * / // % comparisons & | ~ and the like, for a class whose objects to_expr understands.
void bind_operators(nb::handle cls);

}  // namespace fettle::python
