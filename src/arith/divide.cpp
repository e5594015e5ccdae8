// Floor division and remainder of canonical forms.

#include "arith/simplifier.h"

namespace fettle {
namespace {

// The period of c that holds all of `bounds`, if one does: floor(min / c) == floor(max / c).
bool one_period(Interval bounds, int64_t c, int64_t* period) {
  if (!bounds.is_bounded() || bounds.is_empty()) return false;
  *period = floordiv_int(bounds.min, c);
  return *period == floordiv_int(bounds.max, c);
}

// The candidates g = gcd(coefficient, c) with 1 < g < c, largest first.
void divisors_of_coefficients(const LinearForm& x, int64_t c, std::vector<int64_t>& out) {
  out.clear();
  for (const LinearTerm& t : x.terms) {
    const int64_t g = std::gcd(t.coeff, c);
    if (g > 1 && g < c && std::find(out.begin(), out.end(), g) == out.end()) out.push_back(g);
  }
  std::sort(out.begin(), out.end(), std::greater<>());
}

// x = g * high + low, where low's coefficients are those that g does not divide.
void partition(const LinearForm& x, int64_t g, LinearForm& high, LinearForm& low) {
  high = LinearForm(0);
  low = LinearForm(x.constant);
  for (const LinearTerm& t : x.terms) {
    if (t.coeff % g == 0)
      high.terms.push_back({t.expr, t.coeff / g});
    else
      low.terms.push_back(t);
  }
}

// x = g * high + low with 1 < g < c, where low stays within one period of g, which goes into high: high * g is off by
// less than g. False where there is none.
bool cut(Analyzer& analyzer, const LinearForm& x, int64_t c, int64_t* g, LinearForm& high, LinearForm& low,
         int64_t* period) {
  std::vector<int64_t> candidates;
  divisors_of_coefficients(x, c, candidates);
  for (const int64_t candidate : candidates) {
    partition(x, candidate, high, low);
    if (!one_period(analyzer.int_bounds(low), candidate, period)) continue;
    high.add_constant(*period);
    *g = candidate;
    return true;
  }
  return false;
}

LinearForm opaque(const Expr& term) {
  LinearForm form;
  form.add_term(term, 1);
  return form;
}

// term == op(x, constant)?
const BinaryNode* division_by_constant(const Expr& term, BinaryOp op, int64_t* divisor) {
  const auto* n = term.as<BinaryNode>();
  if (!n || n->op != op) return nullptr;
  const int64_t* d = as_int(n->b);
  if (!d || *d <= 0) return nullptr;
  *divisor = *d;
  return n;
}

// x = d * quotient + rest, where the terms of `quotient` are those of x that have all factors of the term d.
void split_by_factor(const LinearForm& x, const Expr& d, LinearForm& quotient, LinearForm& rest) {
  std::vector<Expr> wanted, factors;
  collect_factors(d, wanted);
  rest.constant = x.constant;
  for (const LinearTerm& t : x.terms) {
    factors.clear();
    collect_factors(t.expr, factors);
    bool all = true;
    for (const Expr& w : wanted) {
      const auto at =
          std::find_if(factors.begin(), factors.end(), [&](const Expr& f) { return structural_equal(f, w); });
      if (at == factors.end()) {
        all = false;
        break;
      }
      factors.erase(at);
    }
    if (!all) {
      rest.add_term(t.expr, t.coeff);
    } else if (factors.empty()) {
      quotient.add_constant(t.coeff);
    } else {
      Expr left = factors[0];
      for (size_t i = 1; i < factors.size(); ++i) left = left * factors[i];
      quotient.add_term(left, t.coeff);
    }
  }
}

}  // namespace

LinearForm Simplifier::divide(LinearForm x, int64_t c) {
  if (c == 1) return x;
  if (c < 0 && c != INT64_MIN) {
    x.scale(-1);
    return divide(std::move(x), -c);
  }
  if (c <= 0) return opaque(floordiv(a_.to_expr(std::move(x)), Expr(c)));
  int64_t period;
  if (one_period(a_.int_bounds(x), c, &period)) return LinearForm(period);

  // Whole multiples of c come out.
  LinearForm quotient(floordiv_int(x.constant, c));
  x.constant = floormod_int(x.constant, c);
  bool changed = false;
  for (size_t i = 0; i < x.terms.size();) {
    LinearTerm& t = x.terms[i];
    if (const int64_t whole = t.coeff / c) {
      quotient.terms.push_back({t.expr, whole});
      t.coeff -= whole * c;
      changed = true;
    }
    if (t.coeff == 0)
      x.terms.erase(x.terms.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  if (x.terms.empty()) return quotient;
  if (changed && one_period(a_.int_bounds(x), c, &period)) {
    quotient.add_constant(period);
    return quotient;
  }
  // (g A + B) / c = (A + m) / (c / g) where B stays within [m g, (m + 1) g)
  LinearForm high, low;
  if (int64_t g; cut(a_, x, c, &g, high, low, &period)) {
    quotient.add(divide(std::move(high), c / g));
    return quotient;
  }
  if (x.terms.size() == 1 && x.terms[0].coeff == 1) {
    int64_t d;
    // (y / d + k) / c = (y + k d) / (d c)
    if (const auto* n = division_by_constant(x.terms[0].expr, BinaryOp::kFloorDiv, &d)) {
      int64_t dc, shift;
      if (!__builtin_mul_overflow(d, c, &dc) && !__builtin_mul_overflow(x.constant, d, &shift)) {
        LinearForm inner = linear(n->a);
        inner.add_constant(shift);
        quotient.add(divide(std::move(inner), dc));
        return quotient;
      }
    }
    // (y % (c m)) / c = (y / c) % m
    if (const auto* n = division_by_constant(x.terms[0].expr, BinaryOp::kFloorMod, &d);
        n && x.constant == 0 && d % c == 0) {
      quotient.add(modulo(divide(linear(n->a), c), d / c));
      return quotient;
    }
  }
  if (LinearForm begin; begins_period(x, c, begin)) {
    for (LinearTerm& t : begin.terms) t.coeff /= c;
    begin.constant /= c;
    quotient.add(begin);
    return quotient;
  }
  quotient.add_term(floordiv(a_.to_expr(std::move(x)), Expr(c)), 1);
  return quotient;
}

// A loop over a tile, i in [12 t, 12 t + 12): i / 12 = t. x and `begin`, a multiple of c, are in one period of c.
bool Simplifier::begins_period(const LinearForm& x, int64_t c, LinearForm& begin) {
  const auto fits = [&](const LinearForm& from) {
    LinearForm rest = x;
    rest.add(from, -1);
    if (!always_nonnegative(rest)) return false;
    rest.scale(-1);
    rest.add_constant(c - 1);
    return always_nonnegative(rest);
  };
  for (const LinearTerm& t : x.terms) {
    const auto* var = t.coeff == 1 ? t.expr.as<VarNode>() : nullptr;
    const int at = var ? a_.rank(var) : -1;
    const auto& symbolic = at < 0 ? nullptr : a_.vars_[static_cast<size_t>(at)].symbolic;
    if (!symbolic) continue;
    for (const LinearForm& lower : symbolic->lower) {
      begin = x;
      begin.add_term(t.expr, -1);
      begin.add(lower);
      const auto divides = [&](const LinearTerm& b) { return b.coeff % c == 0; };
      if (begin.constant % c == 0 && std::ranges::all_of(begin.terms, divides) && fits(begin)) return true;
    }
  }
  begin = LinearForm(0);
  return fits(begin);
}

LinearForm Simplifier::modulo(LinearForm x, int64_t c) {
  if (c == 1) return LinearForm(0);
  if (c <= 0) return opaque(floormod(a_.to_expr(std::move(x)), Expr(c)));
  int64_t period;
  if (one_period(a_.int_bounds(x), c, &period)) {
    x.add_constant(-period * c);
    return x;
  }
  for (bool again = true; again;) {
    again = false;
    x.constant = floormod_int(x.constant, c);
    for (size_t i = 0; i < x.terms.size();) {
      x.terms[i].coeff %= c;
      if (x.terms[i].coeff == 0)
        x.terms.erase(x.terms.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    }
    // u (y % m) = u y modulo c where c divides u m
    for (size_t i = 0; i < x.terms.size(); ++i) {
      int64_t m, um;
      const auto* n = division_by_constant(x.terms[i].expr, BinaryOp::kFloorMod, &m);
      if (!n || __builtin_mul_overflow(x.terms[i].coeff, m, &um) || um % c != 0) continue;
      const int64_t coeff = x.terms[i].coeff;
      const Expr inner = n->a;
      x.terms.erase(x.terms.begin() + static_cast<std::ptrdiff_t>(i));
      x.add(linear(inner), coeff);
      again = true;
      break;
    }
  }
  if (x.terms.empty()) return x;
  if (one_period(a_.int_bounds(x), c, &period)) {
    x.add_constant(-period * c);
    return x;
  }
  if (const Modular mod = a_.modular(x); mod.coeff % c == 0) return LinearForm(floormod_int(mod.base, c));
  // (g A + B) % c = g ((A + m) % (c / g)) + B - m g where B stays within [m g, (m + 1) g)
  LinearForm high, low;
  if (int64_t g; cut(a_, x, c, &g, high, low, &period)) {
    low.add_constant(-period * g);
    low.add(modulo(std::move(high), c / g), g);
    return low;
  }
  if (LinearForm begin; begins_period(x, c, begin)) {
    x.add(begin, -1);
    return x;
  }
  return opaque(floormod(a_.to_expr(std::move(x)), Expr(c)));
}

bool Simplifier::split_by(const LinearForm& x, const LinearForm& d, LinearForm& quotient, LinearForm& rest) {
  if (d.terms.size() == 1 && d.terms[0].coeff == 1 && d.constant == 0)
    split_by_factor(x, d.terms[0].expr, quotient, rest);
  else
    rest = x;
  if (rest.is_zero()) return true;
  if (a_.int_bounds(rest).min < 0) return false;
  LinearForm room = d;
  room.add(rest, -1);
  room.add_constant(-1);
  return always_nonnegative(room);
}

LinearForm Simplifier::divide(const LinearForm& x, const LinearForm& d) {
  if (d.is_constant()) return divide(x, d.constant);
  LinearForm quotient, rest;
  if (!split_by(x, d, quotient, rest)) quotient.add_term(floordiv(a_.to_expr(rest), a_.to_expr(d)), 1);
  return quotient;
}

LinearForm Simplifier::modulo(const LinearForm& x, const LinearForm& d) {
  if (d.is_constant()) return modulo(x, d.constant);
  LinearForm quotient, rest;
  return split_by(x, d, quotient, rest) ? rest : opaque(floormod(a_.to_expr(rest), a_.to_expr(d)));
}

void Simplifier::recombine(LinearForm& form) {
  for (int round = 0; round < 8; ++round) {
    bool changed = false;
    for (size_t i = 0; i < form.terms.size() && !changed; ++i) {
      const auto* n = form.terms[i].expr.as<BinaryNode>();
      if (!n) continue;
      const int64_t u = form.terms[i].coeff;
      int64_t d, ud;
      if (n->op == BinaryOp::kFloorDiv && division_by_constant(form.terms[i].expr, n->op, &d) && u % d == 0) {
        // u (y / d) = (u / d) (y - b) where y is known to be b modulo d
        const LinearForm y = linear_form(n->a);
        if (const Modular mod = a_.modular(y); mod.coeff % d == 0) {
          form.terms.erase(form.terms.begin() + static_cast<std::ptrdiff_t>(i));
          form.add(y, u / d);
          form.add_constant(-floormod_int(mod.base, d), u / d);
          changed = true;
        }
        continue;
      }
      if (n->op != BinaryOp::kFloorMod || form.terms.size() < 2) continue;
      const Expr term = form.terms[i].expr;
      if (!division_by_constant(term, n->op, &d)) {
        // u (y % d) + u (y / d) d = u y, for any d
        const Expr whole = product(floordiv(n->a, n->b), n->b);
        if (form.coeff_of(whole) == u) {
          form.add_term(whole, -u);
          form.add_term(term, -u);
          form.add(linear_form(n->a), u);
          changed = true;
        }
        continue;
      }
      if (__builtin_mul_overflow(u, d, &ud)) continue;
      bool candidate = false;
      for (const LinearTerm& t : form.terms) candidate |= t.coeff == ud && t.expr.kind() == ExprKind::kBinary;
      if (!candidate) continue;
      const LinearForm y = linear_form(n->a);
      const LinearForm q = divide(y, d);
      // u (y % d) = u y - u d (y / d), worth it if y / d then cancels
      for (const LinearTerm& t : q.terms) {
        const auto* atom = t.expr.as<BinaryNode>();
        if (t.coeff != 1 || !atom || atom->op != BinaryOp::kFloorDiv || form.coeff_of(t.expr) != ud) continue;
        form.add_term(term, -u);
        form.add(y, u);
        form.add(q, -ud);
        changed = true;
        break;
      }
      if (changed) break;
      // u (y % d) + u d ((y / d) % a) = u (y % (d a))
      const Expr q_expr = a_.to_expr(q);
      for (const LinearTerm& t : form.terms) {
        int64_t a, da;
        const auto* atom = division_by_constant(t.expr, BinaryOp::kFloorMod, &a);
        if (!atom || t.coeff != ud || __builtin_mul_overflow(d, a, &da) || !structural_equal(atom->a, q_expr)) continue;
        const Expr other = t.expr;
        form.add_term(term, -u);
        form.add_term(other, -ud);
        form.add(modulo(y, da), u);
        changed = true;
        break;
      }
    }
    if (!changed) return;
  }
}

}  // namespace fettle
