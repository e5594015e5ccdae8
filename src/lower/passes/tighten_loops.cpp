#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

// lower <= v and v < upper, as far as a conjunct says so.
struct Bounds {
  Expr lower, upper;  // null: no bound
};

// Solves a comparison for v where it is linear in v with everything else outside of v's loop.
bool solve(const Expr& conjunct, const Var& v, Bounds& bounds) {
  Expr comparison = conjunct;
  bool negated = false;
  if (const auto* n = conjunct.as<NotNode>()) {
    comparison = n->a;
    negated = true;
  }
  const auto* c = comparison.as<BinaryNode>();
  if (!c || c->a.dtype() != kI64) return false;
  if (c->op == BinaryOp::kEq && !negated) {
    LinearForm form = linear_form(c->a - c->b);
    const int64_t k = form.coeff_of(v);
    if (k != 1 && k != -1) return false;
    form.add_term(v, -k);
    Expr rest = to_expr(form);  // k*v + rest == 0
    if (uses_var(rest, v.get())) return false;
    Expr value = k == 1 ? Expr(0) - rest : rest;
    bounds = {value, value + 1};
    return true;
  }
  if (c->op != BinaryOp::kLt && c->op != BinaryOp::kLe) return false;
  // a < b  →  a - b + 1 <= 0;  a <= b  →  a - b <= 0;  not (a < b)  →  b - a <= 0;  not (a <= b)  →  b - a + 1 <= 0
  Expr low = negated ? c->b : c->a, high = negated ? c->a : c->b;
  const bool strict = (c->op == BinaryOp::kLt) != negated;
  LinearForm form = linear_form(low - high + (strict ? 1 : 0));
  const int64_t k = form.coeff_of(v);
  if (k == 0) return false;
  form.add_term(v, -k);
  Expr rest = to_expr(form);  // k*v + rest <= 0
  if (uses_var(rest, v.get())) return false;
  if (k > 0)
    bounds.upper = floordiv(Expr(0) - rest, Expr(k)) + 1;  // v <= floor(-rest / k)
  else
    bounds.lower = floordiv(rest + (-k - 1), Expr(-k));  // v >= ceil(rest / -k)
  return true;
}

// Whether it reads what the statement may write: then it may come out otherwise at each place.
bool reads_what_changes(const Expr& e, const Stmt& s) {
  return contains<LoadNode>(e, [&](const LoadNode& read) {
    const auto is_it = [&](const auto& access) { return access.buffer == read.buffer; };
    return contains<StoreNode>(s, is_it) || contains<AddressNode>(s, is_it);
  });
}

class Tightener : public StmtMutator {
 public:
  explicit Tightener(const std::vector<IntParam>& int_params) {
    for (const IntParam& param : int_params)
      analyzer_.bind_range(param.var, {param.min, param.max}, make_modular(param.multiple_of, 0));
  }
  using Mutator::rewrite;

  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    switch (s.kind()) {
      case StmtKind::kFor:
        return rewrite_loop(s);
      case StmtKind::kIf: {
        const Stmt result = Mutator::rewrite(s);
        const auto* n = result.as<IfNode>();
        if (!n || n->else_body || !(n->condition == s.as<IfNode>()->condition)) return result;
        Stmt then_body = n->then_body;
        std::vector<Expr> parts = conjuncts(n->condition);
        // One guard inside another joins it, so that all conjuncts move on together.
        if (const auto* inner = then_body.as<IfNode>(); inner && !inner->else_body) {
          split_conjuncts(inner->condition, parts);
          then_body = inner->then_body;
        }
        std::vector<Expr> open;
        for (const Expr& conjunct : parts) {
          Expr simple = analyzer_.simplify(conjunct);
          if (is_true(simple)) continue;
          if (is_zero(simple)) return nullptr;
          open.push_back(simple);
        }
        return guarded(open, then_body);
      }
      case StmtKind::kAllocate: {
        // A guard around all of the buffer's life moves out of it.
        const auto* n = s.as<AllocateNode>();
        Stmt body = rewrite(n->body);
        if (!body) return nullptr;
        const auto* choice = body.as<IfNode>();
        if (choice && !choice->else_body) return if_then(choice->condition, allocate(n->buffer, choice->then_body));
        return body == n->body ? s : allocate(n->buffer, body);
      }
      default:
        return Mutator::rewrite(s);
    }
  }

 private:
  Stmt rewrite_loop(const Stmt& s) {
    const auto* loop = s.as<ForNode>();
    Expr min = analyzer_.simplify(loop->min), extent = analyzer_.simplify(loop->extent);
    const auto scope = analyzer_.enter();
    analyzer_.bind(loop->var, min, extent);
    Stmt body = rewrite(loop->body);
    if (!body) return nullptr;
    std::vector<Expr> inside, outside;
    const auto* choice = body.as<IfNode>();
    if (choice && !choice->else_body) {
      const std::vector<Expr> parts = conjuncts(choice->condition);
      body = choice->then_body;
      const bool serial = loop->loop_kind == ForKind::kSerial;
      const bool fixed = loop->loop_kind == ForKind::kUnrolled || loop->loop_kind == ForKind::kVectorized;
      for (const Expr& conjunct : parts) {
        if (reads_what_changes(conjunct, body)) {
          inside.push_back(conjunct);
          continue;
        }
        if (!uses_var(conjunct, loop->var.get())) {
          outside.push_back(conjunct);
          continue;
        }
        Bounds bounds;
        if ((serial || fixed) && solve(conjunct, loop->var, bounds)) {
          Expr end = min + extent;
          Expr new_min = bounds.lower ? analyzer_.simplify(max(min, bounds.lower)) : min;
          Expr new_end = bounds.upper ? analyzer_.simplify(fettle::min(end, bounds.upper)) : end;
          Expr new_extent = analyzer_.simplify(new_end - new_min);
          const bool constant = as_int(new_extent) && as_int(new_min);
          if (constant && *as_int(new_extent) <= 0) return nullptr;
          // Vectors keep their width, which is that of the registers they work on: the rest is masked.
          const bool lanes_ok =
              loop->loop_kind != ForKind::kVectorized || (new_min == min && structural_equal(new_extent, extent));
          if (serial || (constant && lanes_ok)) {
            min = new_min;
            extent = constant ? new_extent : analyzer_.simplify(max(new_extent, Expr(0)));
            continue;
          }
        }
        inside.push_back(conjunct);
      }
    }
    body = guarded(inside, std::move(body));
    if (min == loop->min && extent == loop->extent && body == loop->body) return guarded(outside, s);
    Stmt result = with(*loop, [&](ForNode& f) {
      f.min = min;
      f.extent = extent;
      f.body = std::move(body);
    });
    return guarded(outside, result);
  }

  Analyzer analyzer_;
};

}  // namespace

Stmt guarded(const std::vector<Expr>& conjuncts, Stmt body) {
  Expr condition;
  for (const Expr& c : conjuncts) condition = logical_and(condition, c);
  return is_true(condition) ? body : if_then(condition, std::move(body));
}

bool has_guards(const Stmt& body) {
  return contains<ForNode>(body, [](const ForNode& loop) { return !as_int(loop.min) || !as_int(loop.extent); }) ||
         contains<IfNode>(body, [](const IfNode&) { return true; }) ||
         contains<SelectNode>(body, [](const SelectNode&) { return true; });
}

Stmt tighten_loops(const Stmt& body, const std::vector<IntParam>& int_params) {
  return has_guards(body) ? Tightener(int_params).rewrite(body) : body;
}

}  // namespace fettle
