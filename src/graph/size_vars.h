#pragma once
// Sizes in loop programs: a dim becomes an expression over integer parameters, and back.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/dim.h"
#include "ir/func.h"

namespace fettle {

/// The variables of the sizes of one program. While it lives, it is what `size_expr` of this thread uses; the latest
/// one where there are several.
class SizeVars {
 public:
  SizeVars();
  SizeVars(const SizeVars&) = delete;
  SizeVars& operator=(const SizeVars&) = delete;
  ~SizeVars();

  /// The dim over variables of its sizes. Equal dims become equal expressions.
  Expr expr_of(const Dim& dim);
  /// The expression as a dim, where it is one of these variables, integers, + - * // min and max.
  std::optional<Dim> dim_of(const Expr& e) const;
  /// The sizes that were asked for, by name: each one's variable.
  const std::map<std::string, std::pair<Dim, Var>, std::less<>>& sizes() const { return sizes_; }
  /// The same as parameters of a program, which may speak of some in what it computes alone.
  std::vector<IntParam> params() const;

 private:
  std::map<std::string, std::pair<Dim, Var>, std::less<>> sizes_;
  SizeVars* before_;
};

/// As SizeVars::expr_of. A dim that is no number needs a SizeVars that lives.
Expr size_expr(const Dim& dim);
std::vector<Expr> size_exprs(const Shape& shape);
/// Whether an extent is known to be at least 1; numbers are taken as they are.
bool is_positive_size(const Expr& extent);

/// What may be assumed of a parameter that has the value of `dim`.
IntParam int_param_for(Var var, const Dim& dim);

/// A program whose integer parameters are sizes.
struct SizedFunc {
  Func func;
  std::vector<Dim> sizes;  // the values of its integer parameters
};

/// An expression over sizes alone in the form that equal ones have; others as they are.
Expr canonical_size(const Expr& e, const SizeVars& vars);
/// Expressions over sizes alone in one form, so that equal ones are equal. `vars` made the sizes' variables.
Func canonical_sizes(const Func& func, const SizeVars& vars);

/// What a program needs of the sizes becomes its integer parameters, as few as there can be, in the order of first use:
///   x: f32[N * S, 768], y: f32[N * S, 768] output   →   x: f32[n0, 768], y: f32[n0, 768] output, n0 = N * S
SizedFunc with_size_params(const Func& func, const SizeVars& vars);

}  // namespace fettle
