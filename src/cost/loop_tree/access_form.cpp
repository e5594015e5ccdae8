#include "cost/loop_tree/access_form.h"

#include <optional>

#include "ir/visit.h"

namespace fettle {
namespace {

class FormBuilder {
 public:
  FormBuilder(const LoopContext& context, AccessForm& form) : context_(context), form_(form) {}

  void add(const Expr& e, int64_t scale) {
    switch (e.kind()) {
      case ExprKind::kIntImm:
        form_.value += scale * e.as<IntImmNode>()->value;
        return;
      case ExprKind::kVar:
        return add_var(e.as<VarNode>(), scale);
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        if (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub) {
          add(n->a, scale);
          return add(n->b, n->op == BinaryOp::kAdd ? scale : -scale);
        }
        if (n->op == BinaryOp::kMul) {
          if (const auto factor = fixed(n->b)) return add(n->a, scale * *factor);
          if (const auto factor = fixed(n->a)) return add(n->b, scale * *factor);
        }
        return add_opaque(e, scale);
      }
      default:
        return add_opaque(e, scale);
    }
  }

 private:
  // A factor that is the same everywhere: a number, or an integer argument.
  std::optional<int64_t> fixed(const Expr& e) const {
    if (const auto* constant = e.as<IntImmNode>()) return constant->value;
    const auto* var = e.as<VarNode>();
    if (!var || find_loop(var) || find_unrolled(var) || is_lane(var)) return std::nullopt;
    return context_.env->value(var);
  }
  const size_t* find_loop(const VarNode* var) const {
    for (size_t i = context_.loops->size(); i-- > 0;)
      if ((*context_.loops)[i].first == var) return &(found_ = i);
    return nullptr;
  }
  const size_t* find_unrolled(const VarNode* var) const {
    for (size_t i = context_.unrolled->size(); i-- > 0;)
      if ((*context_.unrolled)[i].var == var) return &(found_ = i);
    return nullptr;
  }
  bool is_lane(const VarNode* var) const { return context_.lane->var == var; }

  void add_var(const VarNode* var, int64_t scale) {
    form_.value += scale * context_.env->value(var);
    if (const size_t* i = find_unrolled(var)) {
      form_.copies[*i] += scale;
    } else if (is_lane(var)) {
      form_.lane += scale;
      form_.uses_lane = true;
    } else if (const size_t* l = find_loop(var); l && (*context_.loops)[*l].second > 1) {
      form_.steps[*l] += scale;
    }
  }

  // By what it is in the middle and one iteration later.
  void add_opaque(const Expr& e, int64_t scale) {
    const int64_t here = estimate_int(e, *context_.env);
    form_.value += scale * here;
    const VarNode* seen[16];
    size_t n = 0;
    walk(e, [&](const Expr& x) {
      const auto* var = x.as<VarNode>();
      if (!var) return true;
      for (size_t i = 0; i < n; ++i)
        if (seen[i] == var) return true;
      if (n < 16) seen[n++] = var;
      if (find_unrolled(var)) {
        form_.copies_are_linear = false;
      } else if (is_lane(var)) {
        form_.uses_lane = true;
        form_.lanes_are_linear = false;
      } else if (const size_t* l = find_loop(var); l && (*context_.loops)[*l].second > 1) {
        const size_t loop = *l;
        const int64_t middle = context_.env->value(var);
        context_.env->set(var, middle + 1);
        form_.steps[loop] += scale * (estimate_int(e, *context_.env) - here);
        context_.env->set(var, middle);
      }
      return true;
    });
  }

  const LoopContext& context_;
  AccessForm& form_;
  mutable size_t found_ = 0;
};

}  // namespace

AccessForm access_form(const Expr& e, const LoopContext& context) {
  AccessForm form;
  for (size_t i = 0; i < context.loops->size(); ++i) form.steps[i] = 0;
  for (size_t i = 0; i < context.unrolled->size(); ++i) form.copies[i] = 0;
  FormBuilder(context, form).add(e, 1);
  return form;
}

}  // namespace fettle
