#include "polyhedral/affine_row.h"

#include <isl/aff.h>

namespace fettle {

Expr row_of(const isl::aff& aff, const std::vector<Var>& inputs) {
  const isl::val denominator = isl::manage(isl_aff_get_denominator_val(aff.get()));
  const auto scaled = [&](isl_val* v) { return isl::manage(v).mul(denominator).num_si(); };
  Expr sum = Expr(static_cast<int64_t>(scaled(isl_aff_get_constant_val(aff.get()))));
  if (isl_aff_dim(aff.get(), isl_dim_param) > 0) {
    for (int i = 0; i < isl_aff_dim(aff.get(), isl_dim_param); ++i)
      if (scaled(isl_aff_get_coefficient_val(aff.get(), isl_dim_param, i)) != 0) return nullptr;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t coefficient = scaled(isl_aff_get_coefficient_val(aff.get(), isl_dim_in, static_cast<int>(i)));
    if (coefficient != 0) sum = sum + Expr(inputs[i]) * Expr(coefficient);
  }
  const int divs = static_cast<int>(isl_aff_dim(aff.get(), isl_dim_div));
  for (int i = 0; i < divs; ++i) {
    const int64_t coefficient = scaled(isl_aff_get_coefficient_val(aff.get(), isl_dim_div, i));
    if (coefficient == 0) continue;
    // isl's own integer divisions are floors of what they divide.
    const isl::aff inner = isl::manage(isl_aff_get_div(aff.get(), i));
    const Expr value = row_of(inner, inputs);
    if (!value) return nullptr;
    sum = sum + value * Expr(coefficient);
  }
  const int64_t divisor = denominator.num_si();
  return divisor == 1 ? sum : floordiv(sum, Expr(divisor));
}

}  // namespace fettle
