#pragma once
// For tests: integer expressions evaluated at a point.

#include <string>
#include <unordered_map>

#include "base/check.h"
#include "ir/expr.h"

namespace fettle {

using Point = std::unordered_map<const VarNode*, int64_t>;

/// The value of an i64 or bool expression without loads; every variable must have a value.
inline int64_t evaluate(const Expr& e, const Point& point) {
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return e.as<IntImmNode>()->value;
    case ExprKind::kVar:
      return point.at(e.as<VarNode>());
    case ExprKind::kNot:
      return !evaluate(e.as<NotNode>()->a, point);
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      return evaluate(n->condition, point) ? evaluate(n->if_true, point) : evaluate(n->if_false, point);
    }
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      const int64_t a = evaluate(n->a, point);
      if (n->op == BinaryOp::kAnd && !a) return 0;
      if (n->op == BinaryOp::kOr && a) return 1;
      const int64_t b = evaluate(n->b, point);
      switch (n->op) {
        case BinaryOp::kAdd:
          return a + b;
        case BinaryOp::kSub:
          return a - b;
        case BinaryOp::kMul:
          return a * b;
        case BinaryOp::kFloorDiv:
          return floordiv_int(a, b);
        case BinaryOp::kFloorMod:
          return floormod_int(a, b);
        case BinaryOp::kMin:
          return a < b ? a : b;
        case BinaryOp::kMax:
          return a < b ? b : a;
        case BinaryOp::kEq:
          return a == b;
        case BinaryOp::kNe:
          return a != b;
        case BinaryOp::kLt:
          return a < b;
        case BinaryOp::kLe:
          return a <= b;
        case BinaryOp::kAnd:
        case BinaryOp::kOr:
          return b != 0;
        default:
          break;
      }
      FETTLE_UNREACHABLE();
    }
    default:
      FETTLE_UNREACHABLE();
  }
}

inline std::string to_text(const Point& point) {
  std::string text;
  for (const auto& [var, value] : point) text += var->name + "=" + std::to_string(value) + " ";
  return text;
}

}  // namespace fettle
