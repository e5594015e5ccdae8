#pragma once
// Integer expressions under given values of their variables.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "ir/expr.h"

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

/// The low bits of `value`, as many as `type` has, as a number of that type.
inline int64_t wrapped_int(uint64_t value, DType type) {
  if (type.bits >= 64 || type.is_bool()) return static_cast<int64_t>(value);
  const int unused = 64 - type.bits;
  return type.code == TypeCode::kInt ? static_cast<int64_t>(value << unused) >> unused
                                     : static_cast<int64_t>(value << unused >> unused);
}

/// a `op` b, of integers or bools of `type`, as the language defines it: sums and products wrap. Divisors are not 0,
/// and `op` is not kDiv.
inline int64_t binary_int(BinaryOp op, int64_t a, int64_t b, DType type = kI64) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case BinaryOp::kAdd:
      return wrapped_int(ua + ub, type);
    case BinaryOp::kSub:
      return wrapped_int(ua - ub, type);
    case BinaryOp::kMul:
      return wrapped_int(ua * ub, type);
    case BinaryOp::kFloorDiv:
      return b == -1 ? wrapped_int(0 - ua, type) : floordiv_int(a, b);
    case BinaryOp::kFloorMod:
      return b == -1 ? 0 : floormod_int(a, b);
    case BinaryOp::kMin:
      return std::min(a, b);
    case BinaryOp::kMax:
      return std::max(a, b);
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kAnd:
      return a != 0 && b != 0;
    case BinaryOp::kOr:
      return a != 0 || b != 0;
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:  // beyond the width nothing is left
      return b < 0 || b >= type.bits ? 0 : wrapped_int(ua << b, type);
    case BinaryOp::kShr:
      if (type.code == TypeCode::kInt) return a >> (b < 0 || b >= type.bits ? 63 : b);
      return b < 0 || b >= type.bits ? 0 : static_cast<int64_t>(ua >> b);
    case BinaryOp::kDiv:
      break;
  }
  FETTLE_UNREACHABLE();
}

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

/// Always a value, for estimates: unbound variables count as 0, parts that have no value as `unknown`, a condition of a
/// select that has none as true, a null expression as `unknown`.
int64_t estimate_expression(const Expr& e, const IntEnv& values, int64_t unknown);
inline int64_t estimate_int(const Expr& e, const IntEnv& values, int64_t unknown = 0) {
  if (!e) return unknown;
  if (const auto* constant = e.as<IntImmNode>()) return constant->value;
  return estimate_expression(e, values, unknown);
}

}  // namespace fettle
