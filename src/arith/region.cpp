#include "arith/region.h"

#include "base/check.h"
#include "ir/visit.h"

namespace fettle {
namespace {

struct Ends {
  Expr min, max;
};

// Both ends of e while one variable runs over its domain.
class EndsOf {
 public:
  EndsOf(const VarDomain& domain, Analyzer& analyzer)
      : var_(domain.var.get()),
        ends_{domain.range.min, domain.range.min + domain.range.extent - 1},
        analyzer_(analyzer) {}

  std::optional<Ends> of(const Expr& e) {
    if (e.get() == var_) return ends_;
    if (!uses_var(e, var_)) return Ends{e, e};
    if (const auto* s = e.as<SelectNode>()) {
      const auto t = of(s->if_true), f = of(s->if_false);
      if (!t || !f) return std::nullopt;
      if (!uses_var(s->condition, var_))
        return Ends{select(s->condition, t->min, f->min), select(s->condition, t->max, f->max)};
      return Ends{min(t->min, f->min), max(t->max, f->max)};
    }
    const auto* n = e.as<BinaryNode>();
    if (!n || e.dtype() != kI64) return std::nullopt;
    switch (n->op) {
      case BinaryOp::kAdd:
      case BinaryOp::kSub:
        return of_sum(e);
      case BinaryOp::kMul: {
        const auto x = of(n->a), y = of(n->b);
        if (!x || !y) return std::nullopt;
        const bool x_fixed = x->min == x->max, y_fixed = y->min == y->max;
        if (!x_fixed && !y_fixed) return std::nullopt;
        const Ends& moving = y_fixed ? *x : *y;
        const Expr& factor = y_fixed ? y->min : x->min;
        const Interval sign = analyzer_.int_bounds(factor);
        if (sign.min >= 0) return Ends{moving.min * factor, moving.max * factor};
        if (sign.max <= 0) return Ends{moving.max * factor, moving.min * factor};
        return std::nullopt;
      }
      case BinaryOp::kFloorDiv: {
        const auto x = of(n->a);
        if (!x || uses_var(n->b, var_) || analyzer_.int_bounds(n->b).min <= 0) return std::nullopt;
        return Ends{floordiv(x->min, n->b), floordiv(x->max, n->b)};
      }
      case BinaryOp::kFloorMod: {
        const auto x = of(n->a);
        if (!x || uses_var(n->b, var_) || analyzer_.int_bounds(n->b).min <= 0) return std::nullopt;
        // Within one period the remainder rises with its argument.
        if (analyzer_.can_prove_equal(floordiv(x->min, n->b), floordiv(x->max, n->b)))
          return Ends{floormod(x->min, n->b), floormod(x->max, n->b)};
        return Ends{0, n->b - 1};
      }
      case BinaryOp::kMin:
      case BinaryOp::kMax: {
        const auto x = of(n->a), y = of(n->b);
        if (!x || !y) return std::nullopt;
        return Ends{binary(n->op, x->min, y->min), binary(n->op, x->max, y->max)};
      }
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<Ends> of_sum(const Expr& e) {
    const LinearForm form = linear_form(e);
    LinearForm low(form.constant), high(form.constant);
    for (const LinearTerm& t : form.terms) {
      const auto ends = of(t.expr);
      if (!ends) return std::nullopt;
      low.add_term(t.coeff >= 0 ? ends->min : ends->max, t.coeff);
      high.add_term(t.coeff >= 0 ? ends->max : ends->min, t.coeff);
    }
    return Ends{to_expr(low), to_expr(high)};
  }

  const VarNode* var_;
  Ends ends_;
  Analyzer& analyzer_;
};

// The ends of e after all domains, innermost (last) first.
std::optional<Ends> ends_of(const Expr& e, std::span<const VarDomain> domains, Analyzer& analyzer) {
  Ends ends{e, e};
  for (size_t i = domains.size(); i-- > 0;) {
    EndsOf one(domains[i], analyzer);
    const bool same = ends.min == ends.max;
    const auto low = one.of(ends.min);
    if (!low) return std::nullopt;
    const auto high = same ? low : one.of(ends.max);
    if (!high) return std::nullopt;
    const bool unchanged = low->min == low->max && low->min == ends.min;
    if (unchanged && same) continue;
    ends = {analyzer.simplify(low->min), analyzer.simplify(high->max)};
  }
  return ends;
}

Range from_ends(const Ends& ends, Analyzer& analyzer) {
  if (ends.min == ends.max) return {analyzer.simplify(ends.min), 1};
  return {analyzer.simplify(ends.min), analyzer.simplify(ends.max - ends.min + 1)};
}

// Binds the domains' variables for the time of a query, so that what is asked inside knows their ranges.
Analyzer::Scope bind_domains(std::span<const VarDomain> domains, Analyzer& analyzer) {
  Analyzer::Scope scope = analyzer.enter();
  for (const VarDomain& d : domains) analyzer.bind(d.var, d.range.min, d.range.extent);
  return scope;
}

// The values of a term at the ends of a domain with constant bounds: the domain's variable, or the lesser (greater) of
// it and a constant, as balanced tiles have it. Nothing for other terms.
std::optional<Interval> ends_of_term(const Expr& term, const VarDomain& domain) {
  const int64_t *first = as_int(domain.range.min), *count = as_int(domain.range.extent);
  if (!first || !count) return std::nullopt;
  const int64_t last = *first + *count - 1;
  if (term.get() == domain.var.get()) return Interval{*first, last};
  const auto* n = term.as<BinaryNode>();
  const int64_t* limit = n && n->a.get() == domain.var.get() ? as_int(n->b) : nullptr;
  if (!limit) return std::nullopt;
  if (n->op == BinaryOp::kMin) return Interval{std::min(*first, *limit), std::min(last, *limit)};
  if (n->op == BinaryOp::kMax) return Interval{std::max(*first, *limit), std::max(last, *limit)};
  return std::nullopt;
}

// Sums of such terms, the common case, at once. `width`: elements from e on.
std::optional<Range> range_of_sum(const LinearForm& form, int64_t width, std::span<const VarDomain> domains,
                                  Analyzer& analyzer) {
  LinearForm low(form.constant);
  int64_t extent = width;
  for (const LinearTerm& t : form.terms) {
    const VarDomain* domain = nullptr;
    for (const VarDomain& d : domains)
      if (t.expr.get() == d.var.get() || (t.expr.kind() != ExprKind::kVar && uses_var(t.expr, d.var.get()))) {
        if (domain) return std::nullopt;
        domain = &d;
      }
    if (!domain) {
      low.terms.push_back(t);
      continue;
    }
    const std::optional<Interval> ends = ends_of_term(t.expr, *domain);
    if (!ends) return std::nullopt;
    int64_t steps;
    if (__builtin_mul_overflow(ends->max - ends->min, t.coeff < 0 ? -t.coeff : t.coeff, &steps) ||
        __builtin_add_overflow(extent, steps, &extent))
      return std::nullopt;
    low.add_constant(t.coeff < 0 ? ends->max : ends->min, t.coeff);
  }
  return Range{analyzer.to_expr(std::move(low)), extent};
}

// With the domains bound.
std::optional<Range> bound_range_of(const Range& range, std::span<const VarDomain> domains, Analyzer& analyzer) {
  const LinearForm first = analyzer.linear(range.min);
  for (const LinearTerm& t : first.terms)
    if (t.expr.kind() != ExprKind::kVar && reads_memory(t.expr)) return std::nullopt;
  const int64_t* width = as_int(range.extent);
  if (width)
    if (auto result = range_of_sum(first, *width, domains, analyzer)) return result;
  const auto low = ends_of(analyzer.to_expr(first), domains, analyzer);
  if (!low) return std::nullopt;
  if (width)
    return from_ends({low->min, low->max == low->min && *width == 1 ? low->min : low->max + (*width - 1)}, analyzer);
  const Expr last = analyzer.simplify(range.min + range.extent - 1);
  if (reads_memory(last)) return std::nullopt;
  const auto high = ends_of(last, domains, analyzer);
  if (!high) return std::nullopt;
  return from_ends({low->min, high->max}, analyzer);
}

}  // namespace

std::optional<std::vector<Range>> ranges_of(const std::vector<Range>& ranges, std::span<const VarDomain> domains,
                                            Analyzer& analyzer) {
  const auto scope = bind_domains(domains, analyzer);
  std::vector<Range> result;
  result.reserve(ranges.size());
  for (const Range& range : ranges) {
    auto one = bound_range_of(range, domains, analyzer);
    if (!one) return std::nullopt;
    result.push_back(std::move(*one));
  }
  return result;
}

Range clamp(const Range& a, const Expr& extent, Analyzer& analyzer) {
  const Expr low = analyzer.simplify(max(a.min, 0));
  const Expr high = analyzer.simplify(min(a.min + a.extent, extent));
  return {low, analyzer.simplify(high - low)};
}

bool covers(const Range& outer, const Range& inner, Analyzer& analyzer) {
  if (structural_equal(outer.min, inner.min) && structural_equal(outer.extent, inner.extent)) return true;
  return analyzer.can_prove(le(outer.min, inner.min)) &&
         analyzer.can_prove(le(inner.min + inner.extent, outer.min + outer.extent));
}

bool disjoint(const std::vector<Range>& a, const std::vector<Range>& b, Analyzer& analyzer) {
  FETTLE_CHECK(a.size() == b.size());
  for (size_t d = 0; d < a.size(); ++d) {
    if (analyzer.can_prove(le(a[d].min + a[d].extent, b[d].min))) return true;
    if (analyzer.can_prove(le(b[d].min + b[d].extent, a[d].min))) return true;
  }
  return false;
}

}  // namespace fettle
