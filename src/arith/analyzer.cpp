#include "arith/analyzer.h"

#include "arith/simplifier.h"

namespace fettle {

// --- facts ------------------------------------------------------------------------------------------------------

int Analyzer::rank(const VarNode* var) const {
  for (size_t i = keys_.size(); i-- > 0;)
    if (keys_[i] == var) return static_cast<int>(i);
  return -1;
}

void Analyzer::set_facts(VarFacts facts) {
  ++epoch_;
  const int at = rank(facts.var.get());
  if (at >= 0) {
    changes_.push_back({static_cast<size_t>(at), std::move(vars_[static_cast<size_t>(at)])});
    vars_[static_cast<size_t>(at)] = std::move(facts);
    return;
  }
  keys_.push_back(facts.var.get());
  vars_.push_back(std::move(facts));
}

namespace {

// Forms f with f >= every (upper) or f <= every (lower) value of `form`, where it has a min or max as a term: any
// argument of a min bounds it from above.
void expand_bound(const LinearForm& form, bool upper, std::vector<LinearForm>& out, int depth = 0) {
  if (depth < 3) {
    for (const LinearTerm& t : form.terms) {
      const auto* n = t.expr.as<BinaryNode>();
      if (!n) continue;
      const BinaryOp wanted = (t.coeff > 0) == upper ? BinaryOp::kMin : BinaryOp::kMax;
      if (n->op != wanted) continue;
      for (const Expr& side : {n->a, n->b}) {
        LinearForm next = form;
        next.add_term(t.expr, -t.coeff);
        next.add(linear_form(side), t.coeff);
        expand_bound(next, upper, out, depth + 1);
      }
      return;
    }
  }
  out.push_back(form);
}

}  // namespace

void Analyzer::bind(const Var& var, const Expr& min, const Expr& extent) {
  const int64_t *lo = as_int(min), *count = as_int(extent);
  if (lo && count && rank(var.get()) < 0) {  // as nearly always
    ++epoch_;
    keys_.push_back(var.get());
    vars_.push_back({var, Interval{*lo, *lo + *count - 1}, {}, nullptr});
    return;
  }
  VarFacts facts;
  facts.var = var;
  if (lo && count) {
    facts.range = Interval{*lo, *lo + *count - 1};
    return set_facts(std::move(facts));
  }
  const LinearForm first = linear(min);
  LinearForm last = linear(extent);
  last.add(first);
  last.add_constant(-1);
  facts.range = {int_bounds(first).min, int_bounds(last).max};
  if (!first.is_constant() || !last.is_constant()) {
    auto symbolic = make_ref<SymbolicFacts>();
    if (!first.is_constant()) expand_bound(first, false, symbolic->lower);
    if (!last.is_constant()) expand_bound(last, true, symbolic->upper);
    facts.symbolic = std::move(symbolic);
  }
  set_facts(std::move(facts));
}

void Analyzer::bind(const Var& var, const Expr& value) {
  VarFacts facts;
  facts.var = var;
  if (var->dtype == kI64) {
    auto symbolic = make_ref<SymbolicFacts>();
    symbolic->has_value = true;
    symbolic->value = linear(value);
    facts.range = int_bounds(symbolic->value);
    facts.mod = modular(symbolic->value);
    facts.symbolic = std::move(symbolic);
  }
  set_facts(std::move(facts));
}

void Analyzer::bind_range(const Var& var, Interval range, Modular mod) {
  VarFacts facts;
  facts.var = var;
  facts.range = range;
  facts.mod = mod;
  set_facts(std::move(facts));
}

void Analyzer::bind_params(const Func& func) {
  for (const IntParam& p : func->int_params) bind_range(p.var, {p.min, p.max}, make_modular(p.multiple_of, 0));
}

Analyzer::Scope::Scope(Analyzer* analyzer)
    : analyzer_(analyzer),
      vars_(analyzer->vars_.size()),
      changes_(analyzer->changes_.size()),
      constraints_(analyzer->constraints_.size()),
      truths_(analyzer->truths_.size()) {}

Analyzer::Scope::Scope(Scope&& other) noexcept
    : analyzer_(std::exchange(other.analyzer_, nullptr)),
      vars_(other.vars_),
      changes_(other.changes_),
      constraints_(other.constraints_),
      truths_(other.truths_) {}

Analyzer::Scope::~Scope() {
  if (!analyzer_) return;
  Analyzer& a = *analyzer_;
  if (a.changes_.size() == changes_ && a.vars_.size() == vars_ && a.constraints_.size() == constraints_ &&
      a.truths_.size() == truths_)
    return;
  ++a.epoch_;
  while (a.changes_.size() > changes_) {
    Change& change = a.changes_.back();
    a.vars_[change.index] = std::move(change.before);
    a.changes_.pop_back();
  }
  a.vars_.shrink_to(vars_);
  a.keys_.shrink_to(vars_);
  a.constraints_.shrink_to(constraints_);
  a.truths_.resize(truths_);
}

Analyzer::Scope Analyzer::assume(const Expr& condition) {
  Scope scope(this);
  add_assumption(condition);
  return scope;
}

void Analyzer::tighten(const VarNode* var, Interval range) {
  const int at = rank(var);
  VarFacts facts;
  if (at >= 0)
    facts = vars_[static_cast<size_t>(at)];
  else
    facts.var = Var(var);
  const Interval narrowed = intersect(facts.range, range);
  if (at >= 0 && narrowed == facts.range) return;
  facts.range = narrowed;
  set_facts(std::move(facts));
}

void Analyzer::constrain(const LinearForm& nonnegative) {
  if (nonnegative.terms.empty()) return;
  if (nonnegative.terms.size() == 1) {
    const LinearTerm& t = nonnegative.terms[0];
    if (const auto* var = t.expr.as<VarNode>(); var && nonnegative.constant != INT64_MIN && t.coeff != INT64_MIN) {
      // c v + k >= 0  →  v >= ceil(-k / c), or v <= floor(k / -c) where c < 0
      if (t.coeff > 0)
        tighten(var, {-floordiv_int(nonnegative.constant, t.coeff), Interval::kPosInf});
      else
        tighten(var, {Interval::kNegInf, floordiv_int(nonnegative.constant, -t.coeff)});
      return;
    }
  }
  ++epoch_;
  constraints_.push_back(nonnegative);
  // g a + r >= 0  →  a + floor(max r / g) >= 0: what a bound of 32 i + 16 j + k says of 2 i + j.
  int64_t g = 0;
  for (const LinearTerm& t : nonnegative.terms)
    if (t.coeff != 1 && t.coeff != -1 && t.coeff != INT64_MIN) g = std::gcd(g, t.coeff);
  if (g <= 1) return;
  LinearForm whole, rest(nonnegative.constant);
  for (const LinearTerm& t : nonnegative.terms) (t.coeff % g == 0 ? whole : rest).add_term(t.expr, t.coeff);
  const int64_t most = int_bounds(rest).max;
  if (most == Interval::kPosInf || (rest.terms.empty() && most % g == 0)) return;
  for (LinearTerm& t : whole.terms) t.coeff /= g;
  whole.constant = floordiv_int(most, g);
  constrain(whole);
}

void Analyzer::add_assumption(const Expr& condition) { add_facts(condition, false); }

void Analyzer::add_facts(const Expr& condition, bool simplified) {
  const auto form_of = [&](const Expr& e) { return simplified ? linear_form(e) : linear(e); };
  if (!condition || as_int(condition)) return;
  if (const auto* n = condition.as<BinaryNode>()) {
    if (n->op == BinaryOp::kAnd) {
      add_facts(n->a, simplified);
      add_facts(n->b, simplified);
      return;
    }
    if (n->a.dtype() == kI64) {
      LinearForm difference;  // b - a
      switch (n->op) {
        case BinaryOp::kLt:
        case BinaryOp::kLe:
        case BinaryOp::kEq: {
          difference = form_of(n->b);
          difference.add(form_of(n->a), -1);
          if (n->op == BinaryOp::kLt) difference.add_constant(-1);
          constrain(difference);
          if (n->op == BinaryOp::kEq) {
            difference.scale(-1);
            constrain(difference);
          }
          return;
        }
        case BinaryOp::kNe: {
          difference = form_of(n->b);
          difference.add(form_of(n->a), -1);
          const Interval bounds = int_bounds(difference);
          if (bounds.min == 0) {
            difference.add_constant(-1);
            constrain(difference);
          } else if (bounds.max == 0) {
            difference.scale(-1);
            difference.add_constant(-1);
            constrain(difference);
          }
          break;
        }
        default:
          break;
      }
    }
  }
  if (const auto* n = condition.as<NotNode>()) {
    // With floats, and an and, the condition is kept as it is.
    const auto* inner = n->a.as<BinaryNode>();
    if (inner && inner->op != BinaryOp::kAnd && !inner->a.dtype().is_float())
      if (const Expr negation = negation_of(*inner)) return add_facts(negation, simplified);
  }
  if (const auto* call = condition.as<CallNode>(); call && call->name == "likely")
    return add_facts(call->args[0], simplified);
  ++epoch_;
  truths_.push_back(condition);
}

// --- bounds and congruences -------------------------------------------------------------------------------------

Interval Analyzer::term_bounds(const Expr& term) const {
  switch (term.kind()) {
    case ExprKind::kIntImm:
      return Interval::single(term.as<IntImmNode>()->value);
    case ExprKind::kVar: {
      const int at = rank(term.as<VarNode>());
      return at >= 0 ? vars_[static_cast<size_t>(at)].range : Interval{};
    }
    case ExprKind::kBinary: {
      const auto* n = term.as<BinaryNode>();
      switch (n->op) {
        case BinaryOp::kAdd:
        case BinaryOp::kSub: {
          const LinearForm form = linear_form(term);
          return within_constraint_ ? plain_bounds(form) : int_bounds(form);
        }
        case BinaryOp::kMul:
          return term_bounds(n->a) * term_bounds(n->b);
        case BinaryOp::kFloorDiv:
          return floordiv(term_bounds(n->a), term_bounds(n->b));
        case BinaryOp::kFloorMod:
          return floormod(term_bounds(n->a), term_bounds(n->b));
        case BinaryOp::kMin: {
          const Interval x = term_bounds(n->a), y = term_bounds(n->b);
          return {std::min(x.min, y.min), std::min(x.max, y.max)};
        }
        case BinaryOp::kMax: {
          const Interval x = term_bounds(n->a), y = term_bounds(n->b);
          return {std::max(x.min, y.min), std::max(x.max, y.max)};
        }
        default:
          return {};
      }
    }
    case ExprKind::kSelect: {
      const auto* n = term.as<SelectNode>();
      return hull(term_bounds(n->if_true), term_bounds(n->if_false));
    }
    case ExprKind::kCast: {
      const DType from = term.as<CastNode>()->a.dtype();
      if (from.is_bool()) return {0, 1};
      if (from.code == TypeCode::kInt && from.bits < 64)
        return {-(int64_t{1} << (from.bits - 1)), (int64_t{1} << (from.bits - 1)) - 1};
      if (from.code == TypeCode::kUInt && from.bits < 64) return {0, (int64_t{1} << from.bits) - 1};
      return {};
    }
    default:
      return {};
  }
}

Interval Analyzer::plain_bounds(const LinearForm& form) const {
  Interval sum = Interval::single(form.constant);
  for (const LinearTerm& t : form.terms) sum = sum + term_bounds(t.expr) * t.coeff;
  return sum;
}

Interval Analyzer::int_bounds(const LinearForm& form) const {
  Interval bounds = plain_bounds(form);
  if (form.terms.size() > 1 && !within_constraint_) {
    // x - min(x, y) and the like: an argument of the min may cancel more than its bounds do.
    bool has_min_or_max = false;
    for (const LinearTerm& t : form.terms) {
      const auto* n = t.expr.as<BinaryNode>();
      has_min_or_max |= n && (n->op == BinaryOp::kMin || n->op == BinaryOp::kMax);
    }
    if (has_min_or_max) {
      std::vector<LinearForm> alternatives;
      expand_bound(form, true, alternatives);
      for (const LinearForm& f : alternatives) bounds.max = std::min(bounds.max, plain_bounds(f).max);
      alternatives.clear();
      expand_bound(form, false, alternatives);
      for (const LinearForm& f : alternatives) bounds.min = std::max(bounds.min, plain_bounds(f).min);
    }
  }
  if (form.terms.empty() || constraints_.empty()) return bounds;
  const bool nested = std::exchange(within_constraint_, true);
  for (const LinearForm& c : constraints_) {
    // form = k c + rest with c >= 0, so form >= rest where k > 0 and form <= rest where k < 0
    for (const LinearTerm& t : c.terms) {
      const int64_t coeff = form.coeff_of(t.expr);
      if (coeff == 0 || coeff % t.coeff != 0) continue;
      const int64_t k = coeff / t.coeff;
      LinearForm rest = form;
      rest.add(c, -k);
      const Interval of_rest = plain_bounds(rest);
      if (k > 0)
        bounds.min = std::max(bounds.min, of_rest.min);
      else
        bounds.max = std::min(bounds.max, of_rest.max);
      break;
    }
  }
  within_constraint_ = nested;
  return bounds;
}

Interval Analyzer::int_bounds(const Expr& e) {
  if (const int64_t* value = as_int(e)) return Interval::single(*value);
  if (e.kind() == ExprKind::kVar && constraints_.empty()) return term_bounds(e);
  return int_bounds(linear(e));
}

Modular Analyzer::term_modular(const Expr& term) const {
  switch (term.kind()) {
    case ExprKind::kIntImm:
      return Modular::constant(term.as<IntImmNode>()->value);
    case ExprKind::kVar: {
      const int at = rank(term.as<VarNode>());
      if (at < 0) return {};
      const VarFacts& facts = vars_[static_cast<size_t>(at)];
      return facts.range.is_single() ? Modular::constant(facts.range.min) : facts.mod;
    }
    case ExprKind::kBinary: {
      const auto* n = term.as<BinaryNode>();
      switch (n->op) {
        case BinaryOp::kAdd:
        case BinaryOp::kSub:
          return modular(linear_form(term));
        case BinaryOp::kMul:
          return term_modular(n->a) * term_modular(n->b);
        case BinaryOp::kFloorDiv: {
          const int64_t* d = as_int(n->b);
          if (!d || *d <= 0) return {};
          const Modular m = term_modular(n->a);
          // (c k + b) / d = (c / d) k + floor(b / d) where d divides c
          if (m.coeff % *d != 0) return {};
          return make_modular(m.coeff / *d, floordiv_int(m.base, *d));
        }
        case BinaryOp::kFloorMod: {
          const int64_t* d = as_int(n->b);
          if (!d || *d <= 0) return {};
          const Modular m = term_modular(n->a);
          if (m.coeff % *d == 0) return Modular::constant(floormod_int(m.base, *d));
          return make_modular(std::gcd(m.coeff, *d), m.base);
        }
        case BinaryOp::kMin:
        case BinaryOp::kMax:
          return join(term_modular(n->a), term_modular(n->b));
        default:
          return {};
      }
    }
    case ExprKind::kSelect: {
      const auto* n = term.as<SelectNode>();
      return join(term_modular(n->if_true), term_modular(n->if_false));
    }
    default:
      return {};
  }
}

Modular Analyzer::modular(const LinearForm& form) const {
  Modular sum = Modular::constant(form.constant);
  for (const LinearTerm& t : form.terms) sum = sum + term_modular(t.expr) * t.coeff;
  return sum;
}

Modular Analyzer::modular(const Expr& e) { return modular(linear(e)); }

// --- simplification and proofs ----------------------------------------------------------------------------------

LinearForm Analyzer::linear(const Expr& e) { return Simplifier(*this).linear(e); }

namespace {

void sort_terms(const Analyzer& analyzer, LinearForm& form) {
  const auto size = [](int64_t c) { return c < 0 ? -static_cast<uint64_t>(c) : static_cast<uint64_t>(c); };
  // Insertion sort: forms are short, and it is stable.
  for (size_t i = 1; i < form.terms.size(); ++i) {
    for (size_t j = i; j > 0; --j) {
      LinearTerm &x = form.terms[j - 1], &y = form.terms[j];
      const bool in_order =
          size(x.coeff) != size(y.coeff) ? size(x.coeff) > size(y.coeff) : compare_terms(analyzer, x.expr, y.expr) <= 0;
      if (in_order) break;
      std::swap(x, y);
    }
  }
}

// Whether e is x * coeff, as the constructors write it.
bool is_multiple(const Expr& e, const Expr& x, int64_t coeff) {
  if (coeff == 1) return structural_equal(e, x);
  const auto* n = e.as<BinaryNode>();
  return n && n->op == BinaryOp::kMul && is_int(n->b, coeff) && structural_equal(n->a, x);
}

// Whether fettle::to_expr(form) would be `e` again; it is taken apart from its end.
bool says(const Expr& e, const LinearForm& form) {
  if (form.terms.empty()) return is_int(e, form.constant);
  size_t first = 0;
  while (first < form.terms.size() && form.terms[first].coeff < 0) ++first;
  if (first == form.terms.size()) return false;
  const Expr* rest = &e;
  const auto last_is = [&](BinaryOp op) -> const Expr* {
    const auto* n = rest->as<BinaryNode>();
    if (!n || n->op != op) return nullptr;
    rest = &n->a;
    return &n->b;
  };
  if (form.constant != 0) {
    const bool minus = form.constant < 0 && form.constant != INT64_MIN;
    const Expr* b = last_is(minus ? BinaryOp::kSub : BinaryOp::kAdd);
    if (!b || !is_int(*b, minus ? -form.constant : form.constant)) return false;
  }
  for (size_t i = form.terms.size(); i-- > 0;) {
    if (i == first) continue;
    const LinearTerm& t = form.terms[i];
    const bool minus = t.coeff < 0 && t.coeff != INT64_MIN;
    const Expr* b = last_is(minus ? BinaryOp::kSub : BinaryOp::kAdd);
    if (!b || !is_multiple(*b, t.expr, minus ? -t.coeff : t.coeff)) return false;
  }
  return is_multiple(*rest, form.terms[first].expr, form.terms[first].coeff);
}

}  // namespace

Expr Analyzer::to_expr(LinearForm form) const {
  sort_terms(*this, form);
  return fettle::to_expr(form);
}

Expr to_expr_like(const Analyzer& analyzer, LinearForm form, const Expr& e) {
  sort_terms(analyzer, form);
  return says(e, form) ? e : to_expr(form);
}

Expr Analyzer::simplify(const Expr& e) {
  if (!e) return e;
  const ExprKind kind = e.kind();
  if (kind == ExprKind::kIntImm || kind == ExprKind::kFloatImm) return e;
  if (kind == ExprKind::kVar && e.dtype() == kI64) {
    const int at = rank(e.as<VarNode>());
    if (at < 0) return e;
    const VarFacts& facts = vars_[static_cast<size_t>(at)];
    if (!facts.range.is_single() && !facts.symbolic) return e;
  }
  Expr result = Simplifier(*this).rewrite(e);
  return result == e || structural_equal(result, e) ? e : result;
}

bool Analyzer::can_prove(const Expr& condition) {
  if (is_true(condition)) return true;
  return Simplifier(*this).prove(condition);
}

bool Analyzer::can_prove_equal(const Expr& a, const Expr& b) {
  if (a == b) return true;
  LinearForm difference = linear(a);
  difference.add(linear(b), -1);
  if (difference.terms.empty()) return difference.constant == 0;
  Simplifier simplifier(*this);
  simplifier.recombine(difference);
  if (difference.terms.empty()) return difference.constant == 0;
  if (!simplifier.prove_nonnegative(difference, 24)) return false;
  difference.scale(-1);
  return simplifier.prove_nonnegative(difference, 24);
}

bool Analyzer::can_prove_nonnegative(const LinearForm& form) { return Simplifier(*this).prove_nonnegative(form, 96); }

std::optional<int64_t> Analyzer::constant_value(const Expr& e) {
  if (const int64_t* value = as_int(e)) return *value;
  const Interval bounds = int_bounds(e);
  if (bounds.is_single()) return bounds.min;
  return std::nullopt;
}

Expr simplify(const Expr& e) { return Analyzer().simplify(e); }

}  // namespace fettle
