// Proofs of form >= 0: bounds, assumed inequalities, bounds of variables by other variables, cases of min, max and
// select, and floor division between its two linear bounds; each step counts against a budget.

#include "arith/simplifier.h"

namespace fettle {
namespace {

constexpr int kMaxDepth = 8;
/// A proof over dozens of sizes gives up here: each step would combine sums of all of them with as many assumptions.
constexpr int64_t kMostWork = 1 << 16;

bool has_factor(const Expr& term, const VarNode* var, Expr* others) {
  std::vector<Expr> factors;
  collect_factors(term, factors);
  const auto at = std::find_if(factors.begin(), factors.end(), [&](const Expr& f) { return f.get() == var; });
  if (at == factors.end()) return false;
  factors.erase(at);
  *others = factors.empty() ? Expr(1) : factors[0];
  for (size_t i = 1; i < factors.size(); ++i) *others = *others * factors[i];
  return true;
}

// The largest coefficient, the constant's too.
int64_t largest(const LinearForm& form) {
  const auto size = [](int64_t x) { return x == INT64_MIN ? INT64_MAX : std::abs(x); };
  int64_t most = size(form.constant);
  for (const LinearTerm& t : form.terms) most = std::max(most, size(t.coeff));
  return most;
}
// Whether a multiple, or the product of two forms, is certainly what it is without an end of the integers.
bool fits(const LinearForm& form, int64_t by) {
  constexpr int64_t kMost = int64_t{1} << 60;
  int64_t product;
  return !__builtin_mul_overflow(largest(form), by, &product) && product <= kMost;
}

}  // namespace

bool Simplifier::prove(const Expr& condition) {
  const Expr c = rewrite_bool(condition);
  if (const int64_t* value = as_int(c)) return *value != 0;
  const auto* n = c.as<BinaryNode>();
  if (!n) return false;
  switch (n->op) {
    case BinaryOp::kAnd:
      return prove(n->a) && prove(n->b);
    case BinaryOp::kOr: {
      if (prove(n->a)) return true;
      const auto scope = a_.assume(logical_not(n->a));
      return prove(n->b);
    }
    case BinaryOp::kLt:
    case BinaryOp::kLe: {
      if (n->a.dtype() != kI64) return false;
      LinearForm room = linear_form(n->b);
      room.add(linear_form(n->a), -1);
      if (n->op == BinaryOp::kLt) room.add_constant(-1);
      return prove_nonnegative(room, 96);
    }
    case BinaryOp::kEq:
      return n->a.dtype() == kI64 && a_.can_prove_equal(n->a, n->b);
    case BinaryOp::kNe: {
      if (n->a.dtype() != kI64) return false;
      LinearForm above = linear_form(n->a);
      above.add(linear_form(n->b), -1);
      LinearForm below = above;
      below.scale(-1);
      above.add_constant(-1);
      below.add_constant(-1);
      return prove_nonnegative(above, 48) || prove_nonnegative(below, 48);
    }
    default:
      return false;
  }
}

bool Simplifier::prove_nonnegative(const LinearForm& form, int budget) {
  if (a_.proving_) return a_.int_bounds(form).min >= 0;
  a_.proving_ = true;
  steps_left_ = budget;
  work_left_ = kMostWork;
  const bool proven = prove_step(form, 0);
  a_.proving_ = false;
  return proven;
}

// Whether the sum's terms take their ends independently of one another: its bounds are then all there is to know. Terms
// are variables with nothing but a range, and choices of constants by one of these, as guards of balanced tiles have
// it.
bool Simplifier::bounds_are_exact(const LinearForm& form) const {
  if (!a_.constraints_.empty()) return false;
  SmallVector<const VarNode*, 8> used;
  for (const LinearTerm& t : form.terms) {
    const auto* var = t.expr.as<VarNode>();
    const SelectNode* choice = var ? nullptr : t.expr.as<SelectNode>();
    const int64_t* limit = nullptr;
    if (choice) {
      const auto* test = choice->condition.as<BinaryNode>();
      var = test && test->op == BinaryOp::kLt ? test->a.as<VarNode>() : nullptr;
      limit = var ? as_int(test->b) : nullptr;
      if (!limit || !as_int(choice->if_true) || !as_int(choice->if_false)) return false;
    }
    const auto range = var ? plain_range(var) : std::nullopt;
    if (!range || (limit && (range->min >= *limit || range->max < *limit))) return false;
    if (std::find(used.begin(), used.end(), var) != used.end()) return false;
    used.push_back(var);
  }
  return true;
}

bool Simplifier::prove_step(const LinearForm& form, int depth) {
  const Interval bounds = a_.int_bounds(form);
  if (bounds.min >= 0) return true;
  if (bounds.max < 0 || form.terms.empty() || depth >= kMaxDepth || --steps_left_ <= 0) return false;
  if (bounds_are_exact(form)) return false;
  if (prove_by_constraints(form, depth)) return true;
  bool split = false;
  if (prove_by_cases(form, depth, &split)) return true;
  if (split) return false;  // both cases were necessary and sufficient
  if (prove_by_bounds_of_variables(form, depth)) return true;
  return prove_by_division_bounds(form, depth);
}

// form = k c + rest with an assumed c >= 0 and k > 0: enough that rest >= 0.
bool Simplifier::prove_by_constraints(const LinearForm& form, int depth) {
  for (size_t i = 0; i < a_.constraints_.size(); ++i) {
    const LinearForm constraint = a_.constraints_[i];  // the list may grow below
    for (const LinearTerm& t : constraint.terms) {
      const int64_t coeff = form.coeff_of(t.expr);
      if (coeff == 0 || (coeff > 0) != (t.coeff > 0)) continue;
      const int64_t g = std::gcd(coeff, t.coeff);
      if (!fits(form, std::abs(t.coeff) / g) || !fits(constraint, std::abs(coeff) / g)) continue;
      work_left_ -= std::ssize(form.terms) * std::ssize(constraint.terms);
      if (work_left_ < 0) return false;
      LinearForm rest = form;  // (|t| / g) form - (|coeff| / g) c
      rest.scale(std::abs(t.coeff) / g);
      rest.add(constraint, -(std::abs(coeff) / g));
      if (rest.terms.size() > form.terms.size() + 1) continue;
      recombine(rest);
      if (a_.int_bounds(rest).min >= 0) return true;
      if (rest.terms.size() <= form.terms.size() && prove_step(rest, depth + 1)) return true;
    }
  }
  return false;
}

LinearForm Simplifier::replaced(const LinearForm& form, const Expr& term, const LinearForm& value) {
  LinearForm result(form.constant);
  for (const LinearTerm& t : form.terms) {
    if (t.expr == term)
      result.add(value, t.coeff);
    else
      accumulate(t.expr, t.coeff, result);  // again: more may be known now
  }
  recombine(result);
  return result;
}

bool Simplifier::prove_by_cases(const LinearForm& form, int depth, bool* split) {
  // A select first: its condition is strict.
  const LinearTerm* chosen = nullptr;
  for (const LinearTerm& t : form.terms) {
    if (t.expr.kind() == ExprKind::kSelect) {
      chosen = &t;
      break;
    }
    const auto* n = t.expr.as<BinaryNode>();
    if (!chosen && n && (n->op == BinaryOp::kMin || n->op == BinaryOp::kMax)) chosen = &t;
  }
  if (!chosen) return false;
  *split = true;
  const Expr term = chosen->expr;
  Expr condition, if_true, if_false;
  if (const auto* s = term.as<SelectNode>()) {
    condition = s->condition;
    if_true = s->if_true;
    if_false = s->if_false;
  } else {
    const auto* n = term.as<BinaryNode>();
    condition = lt(n->a, n->b);
    if_true = n->op == BinaryOp::kMin ? n->a : n->b;
    if_false = n->op == BinaryOp::kMin ? n->b : n->a;
  }
  for (const bool value : {true, false}) {
    const auto scope = a_.assume(value ? condition : logical_not(condition));
    const LinearForm side = linear(value ? if_true : if_false);
    if (!prove_step(replaced(form, term, side), depth + 1)) return false;
  }
  return true;
}

// Puts the bound of the innermost variable that has one by other variables in its place.
bool Simplifier::prove_by_bounds_of_variables(const LinearForm& form, int depth) {
  for (size_t at = a_.vars_.size(); at-- > 0;) {
    const Analyzer::VarFacts& facts = a_.vars_[at];
    if (!facts.symbolic || !facts.symbolic->is_bounded()) {
      // A variable with plain bounds matters where it stands in a product.
      bool in_product = false;
      for (const LinearTerm& t : form.terms) {
        const auto* n = t.expr.as<BinaryNode>();
        Expr others;
        in_product |= n && n->op == BinaryOp::kMul && has_factor(t.expr, facts.var.get(), &others);
      }
      if (!in_product) continue;
    }
    // form = slope * var + rest
    LinearForm slope, rest(form.constant);
    for (const LinearTerm& t : form.terms) {
      Expr others;
      if (!has_factor(t.expr, facts.var.get(), &others))
        rest.add_term(t.expr, t.coeff);
      else if (const int64_t* one = as_int(others))
        slope.add_constant(*one, t.coeff);
      else
        slope.add_term(others, t.coeff);
    }
    if (slope.is_zero()) continue;
    const Interval sign = a_.int_bounds(slope);
    const bool rising = sign.min >= 0;
    if (!rising && sign.max > 0) continue;
    std::vector<LinearForm> bounds;
    if (facts.symbolic) bounds = rising ? facts.symbolic->lower : facts.symbolic->upper;
    const int64_t end = rising ? facts.range.min : facts.range.max;
    if (!detail::is_inf(end)) bounds.emplace_back(end);
    for (const LinearForm& bound : bounds) {
      const LinearForm end_value = linear(a_.to_expr(bound));
      if (!fits(slope, largest(end_value))) continue;
      LinearForm value = multiply(slope, end_value);
      value.add(rest);
      recombine(value);
      if (prove_step(value, depth + 1)) return true;
    }
    if (!bounds.empty()) return false;
  }
  return false;
}

// d floor(x / d) lies in [x - d + 1, x], and x % d is at most x where x >= 0. Of integers, d * form > -d is enough.
bool Simplifier::prove_by_division_bounds(const LinearForm& form, int depth) {
  for (const LinearTerm& t : form.terms) {
    const auto* n = t.expr.as<BinaryNode>();
    if (!n) continue;
    const int64_t* d = as_int(n->b);
    if (!d || *d <= 0 || *d > (int64_t{1} << 31)) continue;
    if (!fits(form, *d)) continue;
    LinearForm next = form;
    if (n->op == BinaryOp::kFloorDiv) {
      next.add_term(t.expr, -t.coeff);
      next.scale(*d);
      next.add(linear_form(n->a), t.coeff);
      if (t.coeff > 0) next.add_constant(1 - *d, t.coeff);
      next.add_constant(*d - 1);
    } else if (n->op == BinaryOp::kFloorMod && t.coeff < 0 && a_.int_bounds(linear_form(n->a)).min >= 0) {
      next.add_term(t.expr, -t.coeff);
      next.add(linear_form(n->a), t.coeff);
    } else {
      continue;
    }
    recombine(next);
    if (prove_step(next, depth + 1)) return true;
  }
  return false;
}

}  // namespace fettle
