#include "analysis/affine/isl_text.h"

#include <fmt/format.h>

namespace fettle {

std::optional<std::string> IslText::expression(const Expr& e) const {
  if (e.dtype() != kI64) return std::nullopt;
  if (const int64_t* value = as_int(e)) return fmt::format("({})", *value);
  if (const auto* var = e.as<VarNode>()) {
    const auto at = names_.find(var);
    return at == names_.end() ? std::nullopt : std::optional(at->second);
  }
  const auto* n = e.as<BinaryNode>();
  if (!n) return std::nullopt;
  const auto a = expression(n->a), b = expression(n->b);
  if (!a || !b) return std::nullopt;
  const int64_t* divisor = as_int(n->b);
  switch (n->op) {
    case BinaryOp::kAdd:
      return fmt::format("({} + {})", *a, *b);
    case BinaryOp::kSub:
      return fmt::format("({} - {})", *a, *b);
    case BinaryOp::kMul:
      if (!divisor && !as_int(n->a)) return std::nullopt;
      return fmt::format("({} * {})", *as_int(divisor ? n->b : n->a), divisor ? *a : *b);
    case BinaryOp::kFloorDiv:
      if (!divisor || *divisor <= 0) return std::nullopt;
      return fmt::format("floor({} / {})", *a, *divisor);
    case BinaryOp::kFloorMod:
      if (!divisor || *divisor <= 0) return std::nullopt;
      return fmt::format("({} mod {})", *a, *divisor);
    case BinaryOp::kMin:
      return fmt::format("min({}, {})", *a, *b);
    case BinaryOp::kMax:
      return fmt::format("max({}, {})", *a, *b);
    default:
      return std::nullopt;
  }
}

std::optional<std::string> IslText::condition(const Expr& e) const {
  if (is_true(e)) return "true";
  if (const int64_t* value = as_int(e)) return *value ? "true" : "false";
  if (const auto* negated = e.as<NotNode>()) {
    const auto a = condition(negated->a);
    return a ? std::optional(fmt::format("(not {})", *a)) : std::nullopt;
  }
  if (const auto* called = e.as<CallNode>(); called && called->name == "likely") return condition(called->args.front());
  const auto* n = e.as<BinaryNode>();
  if (!n) return std::nullopt;
  if (n->op == BinaryOp::kAnd || n->op == BinaryOp::kOr) {
    const auto a = condition(n->a), b = condition(n->b);
    if (!a || !b) return std::nullopt;
    return fmt::format("({} {} {})", *a, n->op == BinaryOp::kAnd ? "and" : "or", *b);
  }
  const char* compared = nullptr;
  if (n->op == BinaryOp::kEq) compared = "=";
  if (n->op == BinaryOp::kNe) compared = "!=";
  if (n->op == BinaryOp::kLt) compared = "<";
  if (n->op == BinaryOp::kLe) compared = "<=";
  if (!compared) return std::nullopt;
  const auto a = expression(n->a), b = expression(n->b);
  if (!a || !b) return std::nullopt;
  return fmt::format("({} {} {})", *a, compared, *b);
}

}  // namespace fettle
