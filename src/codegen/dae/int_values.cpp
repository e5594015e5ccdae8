#include "codegen/dae/int_values.h"

#include <algorithm>

#include "ir/text.h"

namespace fettle::dae {

Result<int64_t> IntValues::evaluate(const Expr& e) const {
  int64_t value = 0;
  if (!evaluate(e, value)) return fail(ErrorCode::E301, to_text(e) + " is not known when instructions are issued");
  return value;
}

bool IntValues::evaluate(const Expr& e, int64_t& value) const {
  switch (e.kind()) {
    case ExprKind::kIntImm:
      value = e.as<IntImmNode>()->value;
      return true;
    case ExprKind::kVar: {
      const auto found = values_.find(e.as<VarNode>());
      if (found == values_.end()) return false;
      value = found->second;
      return true;
    }
    case ExprKind::kNot:
      if (!evaluate(e.as<NotNode>()->a, value)) return false;
      value = !value;
      return true;
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      return evaluate(n->condition, value) && evaluate(value ? n->if_true : n->if_false, value);
    }
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      int64_t a = 0, b = 0;
      if (!n->a.dtype().is_int() && !n->a.dtype().is_bool()) return false;
      if (!evaluate(n->a, a) || !evaluate(n->b, b)) return false;
      switch (n->op) {
        case BinaryOp::kAdd:
          value = a + b;
          return true;
        case BinaryOp::kSub:
          value = a - b;
          return true;
        case BinaryOp::kMul:
          value = a * b;
          return true;
        case BinaryOp::kFloorDiv:
          if (b == 0) return false;
          value = floordiv_int(a, b);
          return true;
        case BinaryOp::kFloorMod:
          if (b == 0) return false;
          value = floormod_int(a, b);
          return true;
        case BinaryOp::kMin:
          value = std::min(a, b);
          return true;
        case BinaryOp::kMax:
          value = std::max(a, b);
          return true;
        case BinaryOp::kEq:
          value = a == b;
          return true;
        case BinaryOp::kNe:
          value = a != b;
          return true;
        case BinaryOp::kLt:
          value = a < b;
          return true;
        case BinaryOp::kLe:
          value = a <= b;
          return true;
        case BinaryOp::kAnd:
          value = a && b;
          return true;
        case BinaryOp::kOr:
          value = a || b;
          return true;
        default:
          return false;
      }
    }
    default:
      return false;
  }
}

}  // namespace fettle::dae
