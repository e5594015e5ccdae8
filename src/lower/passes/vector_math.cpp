#include "lower/passes/vector_math.h"

#include "ir/rewrite.h"
#include "lower/passes/math_functions.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

bool has_expanded_math(const Stmt& body) {
  return contains<CallNode>(body, [](const CallNode& call) { return is_expanded_math(call.name); });
}

class MathExpander : public Mutator {
 public:
  explicit MathExpander(bool scales) : scales_(scales) {}
  using Mutator::rewrite;

  Expr rewrite(const Expr& e) override {
    if (const auto* node = e.as<SelectNode>()) {
      const Expr condition = rewrite(node->condition);
      const Expr if_true = guarded(node->if_true, condition, true);
      const Expr if_false = guarded(node->if_false, condition, false);
      if (condition == node->condition && if_true == node->if_true && if_false == node->if_false) return e;
      return select(condition, if_true, if_false);
    }
    if (const auto* node = e.as<BinaryNode>(); node && (node->op == BinaryOp::kAnd || node->op == BinaryOp::kOr)) {
      const Expr a = rewrite(node->a);
      const Expr b = guarded(node->b, a, node->op == BinaryOp::kAnd);
      return a == node->a && b == node->b ? e : binary(node->op, a, b);
    }
    const Expr inner = Mutator::rewrite(e);
    const auto* call = inner.as<CallNode>();
    if (!call || !is_expanded_math(call->name)) return inner;
    const Expr expanded =
        expand_math_function(call->name, call->args, [this](Expr value) { return bind(std::move(value)); }, scales_);
    return expanded ? expanded : inner;
  }

  Stmt rewrite(const Stmt& s) override {
    switch (s.kind()) {
      case StmtKind::kStore:
      case StmtKind::kEvaluate:
      case StmtKind::kCallFunc: {
        Scope scope(*this);
        return scope.around(Mutator::rewrite(s));
      }
      case StmtKind::kLet: {
        const auto* node = s.as<LetNode>();
        Stmt body = rewrite(node->body);
        Scope scope(*this);
        Expr value = rewrite(node->value);
        if (body == node->body && value == node->value) return s;
        return scope.around(let(node->var, value, body));
      }
      case StmtKind::kIf: {
        const auto* node = s.as<IfNode>();
        Stmt then_body = rewrite(node->then_body);
        Stmt else_body = node->else_body ? rewrite(node->else_body) : nullptr;
        Scope scope(*this);
        Expr condition = rewrite(node->condition);
        if (then_body == node->then_body && else_body == node->else_body && condition == node->condition) return s;
        return scope.around(if_then(condition, then_body, else_body));
      }
      default:
        return Mutator::rewrite(s);  // loops' conditions and bounds keep their values in place
    }
  }

 private:
  using Bindings = std::vector<std::pair<Var, Expr>>;

  /// Values named while it lives stand before one statement.
  class Scope {
   public:
    explicit Scope(MathExpander& owner) : owner_(owner), outer_(std::exchange(owner.bindings_, &mine_)) {}
    ~Scope() { owner_.bindings_ = outer_; }
    Stmt around(Stmt s) const {
      for (size_t i = mine_.size(); i-- > 0;) s = let(mine_[i].first, mine_[i].second, s);
      return s;
    }

   private:
    MathExpander& owner_;
    Bindings mine_;
    Bindings* outer_;
  };

  /// Where `condition` is `when`, what is below it happens.
  struct Guard {
    Expr condition;
    bool when;
  };

  /// Reads below a side happen only where it is chosen: what is named before the statement and reads has the condition.
  Expr guarded(const Expr& e, const Expr& condition, bool when) {
    if (!reads_memory(e)) return rewrite(e);
    guards_.push_back({condition, when});
    Expr result = rewrite(e);
    guards_.pop_back();
    return result;
  }

  Expr bind(Expr value) {
    if (!bindings_ || value.kind() == ExprKind::kVar || value.kind() == ExprKind::kIntImm ||
        value.kind() == ExprKind::kFloatImm)
      return value;
    if (reads_memory(value)) {
      const DType type = value.dtype();
      for (size_t i = guards_.size(); i-- > 0;) {
        const auto& [condition, when] = guards_[i];
        // One value for all lanes, some of which are chosen: its reads have no condition to be under.
        if (condition.dtype().is_vector() && condition.dtype().lanes != type.lanes) return value;
        const Expr nothing = constant(0, type);
        value = when ? select(condition, value, nothing) : select(condition, nothing, value);
      }
    }
    Var name = make_var("m" + std::to_string(counter_++), value.dtype());
    bindings_->push_back({name, std::move(value)});
    return name;
  }

  const bool scales_;
  Bindings* bindings_ = nullptr;
  std::vector<Guard> guards_;  // outermost first
  int counter_ = 0;
};

}  // namespace

Func expand_vector_math(const Func& func, bool scales) {
  if (!has_expanded_math(func->body)) return func;
  return with_body(func, MathExpander(scales).rewrite(func->body));
}

}  // namespace fettle
