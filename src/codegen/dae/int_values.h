#pragma once
// Integer expressions under given values of their variables.

#include <unordered_map>

#include "base/result.h"
#include "ir/expr.h"

namespace fettle::dae {

class IntValues {
 public:
  void set(const Var& var, int64_t value) { values_[var.get()] = value; }
  /// The value of an integer or bool expression. E301 where a variable has no value, or it loads, calls or is not of
  /// integers.
  Result<int64_t> evaluate(const Expr& e) const;

 private:
  bool evaluate(const Expr& e, int64_t& value) const;
  std::unordered_map<const VarNode*, int64_t> values_;
};

}  // namespace fettle::dae
