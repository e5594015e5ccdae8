#include "measure/int_eval.h"

#include <algorithm>

#include "ir/visit.h"

namespace fettle {
namespace {

Result<int64_t> apply(BinaryOp op, int64_t a, int64_t b) {
  // Wraps as the language's i64 does.
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case BinaryOp::kAdd:
      return static_cast<int64_t>(ua + ub);
    case BinaryOp::kSub:
      return static_cast<int64_t>(ua - ub);
    case BinaryOp::kMul:
      return static_cast<int64_t>(ua * ub);
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      if (b == 0) return fail(ErrorCode::E709, "an index divides by zero");
      return op == BinaryOp::kFloorDiv ? floordiv_int(a, b) : floormod_int(a, b);
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
      return (a != 0) && (b != 0);
    case BinaryOp::kOr:
      return (a != 0) || (b != 0);
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:
      return static_cast<int64_t>(ua << (ub & 63));
    case BinaryOp::kShr:
      return a >> (ub & 63);
    case BinaryOp::kDiv:
      break;
  }
  return fail(ErrorCode::E301, "a float division is no index");
}

}  // namespace

Result<int64_t> evaluate_int(const Expr& e, const IntBindings& values) {
  if (const auto* imm = e.as<IntImmNode>()) return imm->value;
  if (const auto* var = e.as<VarNode>()) {
    const auto found = values.find(var);
    if (found == values.end()) return fail(ErrorCode::E301, "the integer " + var->name + " has no value");
    return found->second;
  }
  if (const auto* node = e.as<BinaryNode>()) {
    FETTLE_TRY(const int64_t a, evaluate_int(node->a, values));
    FETTLE_TRY(const int64_t b, evaluate_int(node->b, values));
    return apply(node->op, a, b);
  }
  if (const auto* node = e.as<NotNode>()) {
    FETTLE_TRY(const int64_t a, evaluate_int(node->a, values));
    return a == 0;
  }
  if (const auto* node = e.as<SelectNode>()) {
    FETTLE_TRY(const int64_t condition, evaluate_int(node->condition, values));
    return evaluate_int(condition != 0 ? node->if_true : node->if_false, values);
  }
  if (const auto* node = e.as<CastNode>(); node && node->dtype == kI64 && !node->a.dtype().is_float())
    return evaluate_int(node->a, values);
  return fail(ErrorCode::E301, "an expression is not made of integers alone");
}

}  // namespace fettle
