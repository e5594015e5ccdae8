#include "arith/int_eval.h"

#include <algorithm>

#include "base/check.h"
#include "ir/visit.h"

namespace fettle {

IntEnv typical_values(const Func& func) {
  IntEnv values;
  for (const IntParam& param : func->int_params) values.push(param.var.get(), typical_of(param));
  return values;
}

namespace {

// What has no value gives `unknown`, and the first reason is kept: who wants no estimate looks at it in the end.
class Evaluation {
 public:
  Evaluation(const IntEnv& values, int64_t unknown) : values_(values), unknown_(unknown) {}
  IntProblem problem() const { return problem_; }

  int64_t evaluate(const Expr& e) {
    switch (e.kind()) {
      case ExprKind::kIntImm:
        return e.as<IntImmNode>()->value;
      case ExprKind::kVar: {
        const int64_t* found = values_.find(e.as<VarNode>());
        if (found) return *found;
        (void)fails(IntProblem::kUnbound);
        return 0;
      }
      case ExprKind::kBinary:
        return evaluate(*e.as<BinaryNode>());
      case ExprKind::kNot:
        return evaluate(e.as<NotNode>()->a) == 0;
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        const int64_t unknown = std::exchange(unknown_, 1);
        const bool holds = evaluate(n->condition) != 0;
        unknown_ = unknown;
        return evaluate(holds ? n->if_true : n->if_false);
      }
      case ExprKind::kCast: {
        const Expr& from = e.as<CastNode>()->a;
        if (e.dtype().is_float() || from.dtype().is_float()) return fails(IntProblem::kNoInteger);
        return wrapped_int(static_cast<uint64_t>(evaluate(from)), e.dtype());
      }
      case ExprKind::kRamp:
        return evaluate(e.as<RampNode>()->base);
      case ExprKind::kBroadcast:
        return evaluate(e.as<BroadcastNode>()->value);
      case ExprKind::kCall: {
        const auto* n = e.as<CallNode>();
        if (n->name == "likely" && n->args.size() == 1) return evaluate(n->args[0]);
        return fails(IntProblem::kNoInteger);
      }
      default:
        return fails(IntProblem::kNoInteger);
    }
  }

 private:
  int64_t fails(IntProblem why) {
    if (problem_ == IntProblem::kNone) problem_ = why;
    return unknown_;
  }

  int64_t evaluate(const BinaryNode& n) {
    const DType type = n.a.dtype();
    if (!type.is_int() && !type.is_bool()) return fails(IntProblem::kNoInteger);
    const int64_t a = evaluate(n.a);
    if (n.op == BinaryOp::kAnd && a == 0) return 0;
    if (n.op == BinaryOp::kOr && a != 0) return 1;
    const int64_t b = evaluate(n.b);
    if (n.op == BinaryOp::kDiv) return fails(IntProblem::kNoInteger);
    if (b == 0 && (n.op == BinaryOp::kFloorDiv || n.op == BinaryOp::kFloorMod)) return fails(IntProblem::kByZero);
    return binary_int(n.op, a, b, type);
  }

  const IntEnv& values_;
  int64_t unknown_;
  IntProblem problem_ = IntProblem::kNone;
};

}  // namespace

void IntEnv::set(const VarNode* var, int64_t value) {
  for (size_t i = values_.size(); i-- > 0;) {
    if (values_[i].first != var) continue;
    values_[i].second = value;
    return;
  }
  push(var, value);
}

IntProblem evaluate_int(const Expr& e, const IntEnv& values, int64_t& value) {
  Evaluation evaluation(values, 0);
  const int64_t result = evaluation.evaluate(e);
  if (evaluation.problem() == IntProblem::kNone) value = result;
  return evaluation.problem();
}

Result<int64_t> evaluate_int(const Expr& e, const IntEnv& values) {
  int64_t value = 0;
  switch (evaluate_int(e, values, value)) {
    case IntProblem::kNone:
      return value;
    case IntProblem::kUnbound:
      for (const Var& var : collect_vars(e))
        if (!values.find(var.get())) return fail(ErrorCode::E301, "the integer " + var->name + " has no value");
      break;
    case IntProblem::kNoInteger:
      return fail(ErrorCode::E301, "an expression is not made of integers alone");
    case IntProblem::kByZero:
      return fail(ErrorCode::E709, "an index divides by zero");
  }
  FETTLE_UNREACHABLE();
}

int64_t estimate_expression(const Expr& e, const IntEnv& values, int64_t unknown) {
  return Evaluation(values, unknown).evaluate(e);
}

}  // namespace fettle
