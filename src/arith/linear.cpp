#include "arith/linear.h"

#include <numeric>

#include "ir/visit.h"

namespace fettle {
namespace {

int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

bool same_term(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (a.kind() != b.kind() || a.kind() == ExprKind::kVar) return false;
  return structural_hash(a) == structural_hash(b) && structural_equal(a, b);
}

void accumulate(const Expr& e, int64_t scale, LinearForm& out) {
  if (const auto* imm = e.as<IntImmNode>()) return out.add_constant(imm->value, scale);
  if (const auto* n = e.as<BinaryNode>()) {
    switch (n->op) {
      case BinaryOp::kAdd:
        accumulate(n->a, scale, out);
        return accumulate(n->b, scale, out);
      case BinaryOp::kSub:
        accumulate(n->a, scale, out);
        return accumulate(n->b, wrapping_mul(scale, -1), out);
      case BinaryOp::kMul:
        if (const int64_t* k = as_int(n->b)) return accumulate(n->a, wrapping_mul(scale, *k), out);
        if (const int64_t* k = as_int(n->a)) return accumulate(n->b, wrapping_mul(scale, *k), out);
        break;
      default:
        break;
    }
  }
  out.add_term(e, scale);
}

}  // namespace

int64_t LinearForm::coeff_of(const Expr& term) const {
  for (const LinearTerm& t : terms)
    if (same_term(t.expr, term)) return t.coeff;
  return 0;
}

void LinearForm::add_constant(int64_t value, int64_t scale) {
  constant = wrapping_add(constant, wrapping_mul(value, scale));
}

void LinearForm::add_term(const Expr& term, int64_t coeff) {
  if (coeff == 0) return;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!same_term(terms[i].expr, term)) continue;
    terms[i].coeff = wrapping_add(terms[i].coeff, coeff);
    if (terms[i].coeff == 0) terms.erase(terms.begin() + i);
    return;
  }
  terms.push_back({term, coeff});
}

void LinearForm::add(const LinearForm& other, int64_t scale) {
  add_constant(other.constant, scale);
  for (const LinearTerm& t : other.terms) add_term(t.expr, wrapping_mul(t.coeff, scale));
}

void LinearForm::scale(int64_t k) {
  if (k == 0) terms.clear();
  for (LinearTerm& t : terms) t.coeff = wrapping_mul(t.coeff, k);
  constant = wrapping_mul(constant, k);
}

int64_t LinearForm::coeff_gcd() const {
  int64_t g = 0;
  for (const LinearTerm& t : terms) g = std::gcd(g, t.coeff == INT64_MIN ? 1 : t.coeff);
  return g;
}

LinearForm linear_form(const Expr& e) {
  LinearForm form;
  accumulate(e, 1, form);
  return form;
}

Expr to_expr(const LinearForm& form) {
  if (form.terms.empty()) return int_imm(form.constant);
  // Begin with a positive term where there is one; else with the constant.
  size_t first = 0;
  while (first < form.terms.size() && form.terms[first].coeff < 0) ++first;
  Expr sum;
  bool constant_used = false;
  if (first < form.terms.size()) {
    sum = form.terms[first].expr * Expr(form.terms[first].coeff);
  } else if (form.constant != 0) {
    sum = int_imm(form.constant);
    constant_used = true;
  } else {
    first = 0;
    sum = form.terms[0].expr * Expr(form.terms[0].coeff);
  }
  for (size_t i = 0; i < form.terms.size(); ++i) {
    if (i == first) continue;
    const LinearTerm& t = form.terms[i];
    if (t.coeff < 0 && t.coeff != INT64_MIN)
      sum = sum - t.expr * Expr(-t.coeff);
    else
      sum = sum + t.expr * Expr(t.coeff);
  }
  if (constant_used || form.constant == 0) return sum;
  if (form.constant < 0 && form.constant != INT64_MIN) return sum - Expr(-form.constant);
  return sum + Expr(form.constant);
}

std::optional<VarSplit> split_linear(const Expr& e, const VarNode* var) {
  if (e.get() == var) return VarSplit{1, 0};
  const auto* n = e.as<BinaryNode>();
  if (n && (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub)) {
    const auto x = split_linear(n->a, var), y = split_linear(n->b, var);
    if (!x || !y) return std::nullopt;
    return VarSplit{binary(n->op, x->coeff, y->coeff), binary(n->op, x->rest, y->rest)};
  }
  if (n && n->op == BinaryOp::kMul) {
    const auto x = split_linear(n->a, var), y = split_linear(n->b, var);
    if (!x || !y) return std::nullopt;
    if (is_zero(y->coeff)) return VarSplit{x->coeff * n->b, x->rest * n->b};
    if (is_zero(x->coeff)) return VarSplit{n->a * y->coeff, n->a * y->rest};
    return std::nullopt;
  }
  if (const auto* s = e.as<SelectNode>(); s && !uses_var(s->condition, var)) {
    const auto t = split_linear(s->if_true, var), f = split_linear(s->if_false, var);
    if (!t || !f) return std::nullopt;
    const bool same = structural_equal(t->coeff, f->coeff);
    return VarSplit{same ? t->coeff : select(s->condition, t->coeff, f->coeff), select(s->condition, t->rest, f->rest)};
  }
  if (!uses_var(e, var)) return VarSplit{0, e};
  return std::nullopt;
}

}  // namespace fettle
