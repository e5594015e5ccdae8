#pragma once
// Integer expressions under given values of their variables, fast and without failure: for estimates.

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/expr.h"

namespace fettle {

/// A stack of variables with their values.
class IntEnv {
 public:
  void push(const VarNode* var, int64_t value) { values_.emplace_back(var, value); }
  void pop(size_t count = 1) { values_.resize(values_.size() - count); }
  /// Changes the innermost variable `var`, which must be there.
  void set(const VarNode* var, int64_t value);
  /// Of the innermost `var`; 0 if it is not there.
  int64_t value(const VarNode* var) const;
  size_t size() const { return values_.size(); }

  /// The value of an integer or bool expression; lanes: of lane 0. Unknown variables count as 0, what cannot be
  /// evaluated (loads, calls, floats) as `unknown`.
  int64_t evaluate(const Expr& e, int64_t unknown = 0) const;

 private:
  std::vector<std::pair<const VarNode*, int64_t>> values_;
};

}  // namespace fettle
