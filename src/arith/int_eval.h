#pragma once
// Integer expressions under given values of their variables.

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/expr.h"
#include "ir/func.h"
#include "ir/int_arithmetic.h"

namespace fettle {

/// A stack of variables with their values. Few are in use at once, and most questions are about the innermost ones.
class IntEnv {
 public:
  IntEnv() = default;
  IntEnv(std::initializer_list<std::pair<const VarNode*, int64_t>> values) : values_(values) {}

  void reserve(size_t n) { values_.reserve(n); }
  void push(const VarNode* var, int64_t value) { values_.emplace_back(var, value); }
  void pop(size_t count = 1) { values_.resize(values_.size() - count); }
  /// Changes the innermost variable `var`; adds it where it is not there.
  void set(const VarNode* var, int64_t value);
  /// The value of the innermost `var`, or null.
  const int64_t* find(const VarNode* var) const {
    for (size_t i = values_.size(); i-- > 0;)
      if (values_[i].first == var) return &values_[i].second;
    return nullptr;
  }
  /// As find; 0 where it is not there.
  int64_t value(const VarNode* var) const {
    const int64_t* found = find(var);
    return found ? *found : 0;
  }
  size_t size() const { return values_.size(); }

 private:
  std::vector<std::pair<const VarNode*, int64_t>> values_;
};

/// Why an expression has no value.
enum class IntProblem : uint8_t {
  kNone,
  kUnbound,    // a variable without a value
  kNoInteger,  // it loads, calls or computes with floats
  kByZero,     // a division
};

/// The value of an integer or bool expression, as the language defines it (sums and products wrap; of `and`, `or` and
/// select, what does not count is not evaluated); lanes: that of lane 0. `value` is left as it was where there is none.
IntProblem evaluate_int(const Expr& e, const IntEnv& values, int64_t& value);
/// As above. E301 unbound or no integers · E709 division by zero
Result<int64_t> evaluate_int(const Expr& e, const IntEnv& values = {});

/// Integer parameters with the values that choices take them for (typical_of).
IntEnv typical_values(const Func& func);

/// Always a value, for estimates: unbound variables count as 0, parts that have no value as `unknown`, a condition of a
/// select that has none as true, a null expression as `unknown`.
int64_t estimate_expression(const Expr& e, const IntEnv& values, int64_t unknown);
inline int64_t estimate_int(const Expr& e, const IntEnv& values, int64_t unknown = 0) {
  if (!e) return unknown;
  if (const auto* constant = e.as<IntImmNode>()) return constant->value;
  return estimate_expression(e, values, unknown);
}

}  // namespace fettle
