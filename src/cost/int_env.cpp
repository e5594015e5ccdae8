#include "cost/int_env.h"

#include <algorithm>

#include "base/check.h"

namespace fettle {

void IntEnv::set(const VarNode* var, int64_t value) {
  for (size_t i = values_.size(); i-- > 0;) {
    if (values_[i].first != var) continue;
    values_[i].second = value;
    return;
  }
  FETTLE_UNREACHABLE();
}

int64_t IntEnv::value(const VarNode* var) const {
  for (size_t i = values_.size(); i-- > 0;)
    if (values_[i].first == var) return values_[i].second;
  return 0;
}

int64_t IntEnv::evaluate(const Expr& e, int64_t unknown) const {
  if (!e) return unknown;
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return e.as<IntImmNode>()->value;
    case ExprKind::kVar:
      return value(e.as<VarNode>());
    case ExprKind::kNot:
      return evaluate(e.as<NotNode>()->a, unknown) == 0;
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      return evaluate(n->condition, 1) ? evaluate(n->if_true, unknown) : evaluate(n->if_false, unknown);
    }
    case ExprKind::kCast:
      return evaluate(e.as<CastNode>()->a, unknown);
    case ExprKind::kRamp:
      return evaluate(e.as<RampNode>()->base, unknown);
    case ExprKind::kBroadcast:
      return evaluate(e.as<BroadcastNode>()->value, unknown);
    case ExprKind::kBinary:
      break;
    case ExprKind::kCall: {
      const auto* n = e.as<CallNode>();
      return n->name == "likely" && n->args.size() == 1 ? evaluate(n->args[0], unknown) : unknown;
    }
    default:
      return unknown;
  }
  const auto* n = e.as<BinaryNode>();
  if (!n->a.dtype().is_int() && !n->a.dtype().is_bool()) return unknown;
  const int64_t a = evaluate(n->a, unknown);
  if (n->op == BinaryOp::kAnd && a == 0) return 0;
  if (n->op == BinaryOp::kOr && a != 0) return 1;
  const int64_t b = evaluate(n->b, unknown);
  switch (n->op) {
    case BinaryOp::kAdd:
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    case BinaryOp::kSub:
      return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    case BinaryOp::kMul:
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case BinaryOp::kFloorDiv:
      return b == 0 ? unknown : floordiv_int(a, b);
    case BinaryOp::kFloorMod:
      return b == 0 ? unknown : floormod_int(a, b);
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
      return b != 0;
    case BinaryOp::kOr:
      return b != 0;
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:
      return b < 0 || b > 62 ? unknown : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
    case BinaryOp::kShr:
      return b < 0 || b > 62 ? unknown : a >> b;
    case BinaryOp::kDiv:
      return unknown;
  }
  return unknown;
}

}  // namespace fettle
