// Rewriting of expressions into canonical form; divide.cpp has the rules of division.

#include "arith/simplifier.h"
#include "base/check.h"
#include "ir/fields.h"
#include "ir/visit.h"

namespace fettle {

Expr negation_of(const BinaryNode& n) {
  const bool ordered = !n.a.dtype().is_float();
  switch (n.op) {
    case BinaryOp::kAnd:
      return logical_or(logical_not(n.a), logical_not(n.b));
    case BinaryOp::kOr:
      return logical_and(logical_not(n.a), logical_not(n.b));
    case BinaryOp::kLt:
      return ordered ? le(n.b, n.a) : Expr();
    case BinaryOp::kLe:
      return ordered ? lt(n.b, n.a) : Expr();
    case BinaryOp::kEq:
      return ne(n.a, n.b);
    case BinaryOp::kNe:
      return eq(n.a, n.b);
    default:
      return nullptr;
  }
}

namespace {

template <class T>
int compare_fields(const Analyzer& analyzer, const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Expr>) {
    return compare_terms(analyzer, a, b);
  } else if constexpr (std::is_same_v<T, Buffer>) {
    return a->name.compare(b->name);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return a.compare(b);
  } else if constexpr (is_list<T>) {
    int c = compare_fields(analyzer, a.size(), b.size());
    for (size_t i = 0; c == 0 && i < a.size(); ++i) c = compare_fields(analyzer, a[i], b[i]);
    return c;
  } else {
    return a < b ? -1 : a > b ? 1 : 0;
  }
}

}  // namespace

int compare_terms(const Analyzer& analyzer, const Expr& a, const Expr& b) {
  if (a == b) return 0;
  if (!a || !b) return compare_fields(analyzer, !a, !b);
  const auto group = [](const Expr& e) { return e.kind() == ExprKind::kVar ? -1 : static_cast<int>(e.kind()); };
  if (const int c = compare_fields(analyzer, group(a), group(b))) return c;
  if (const auto *x = a.as<VarNode>(), *y = b.as<VarNode>(); x) {
    const auto rank = [&](const VarNode* v) { return static_cast<unsigned>(analyzer.rank(v)); };  // unbound: last
    const int c = compare_fields(analyzer, rank(x), rank(y));
    return c ? c : x->name.compare(y->name);
  }
  return with_node(a, [&]<class Node>(const Node& x) {
    const auto& y = static_cast<const Node&>(*b);
    int c = 0;
    all_fields<Node>([&](auto member) { return (c = compare_fields(analyzer, x.*member, y.*member)) == 0; });
    return c;
  });
}

void collect_factors(const Expr& e, std::vector<Expr>& out) {
  const auto* n = e.as<BinaryNode>();
  if (n && n->op == BinaryOp::kMul) {
    collect_factors(n->a, out);
    collect_factors(n->b, out);
  } else {
    out.push_back(e);
  }
}

void extract_common(LinearForm& x, LinearForm& y, LinearForm& common) {
  for (size_t i = 0; i < x.terms.size();) {
    const LinearTerm t = x.terms[i];
    if (y.coeff_of(t.expr) == t.coeff) {
      common.terms.push_back(t);
      y.add_term(t.expr, -t.coeff);
      x.terms.erase(x.terms.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

// --- integers ---------------------------------------------------------------------------------------------------

LinearForm Simplifier::linear(const Expr& e) {
  FETTLE_CHECK(e.dtype() == kI64);
  LinearForm form;
  accumulate(e, 1, form);
  if (form.terms.size() > 1 || (form.terms.size() == 1 && form.terms[0].coeff != 1)) recombine(form);
  return form;
}

void Simplifier::accumulate(const Expr& e, int64_t scale, LinearForm& out) {
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return out.add_constant(e.as<IntImmNode>()->value, scale);
    case ExprKind::kVar: {
      const int at = a_.rank(e.as<VarNode>());
      if (at >= 0) {
        const Analyzer::VarFacts& facts = a_.vars_[static_cast<size_t>(at)];
        if (facts.range.is_single()) return out.add_constant(facts.range.min, scale);
        if (facts.symbolic && facts.symbolic->has_value) return out.add(facts.symbolic->value, scale);
      }
      return out.add_term(e, scale);
    }
    case ExprKind::kBinary:
      return accumulate_binary(e, scale, out);
    case ExprKind::kSelect:
      return out.add(select_form(e), scale);
    default: {
      const Expr fresh = rewrite_children(e);
      if (const int64_t* value = as_int(fresh)) return out.add_constant(*value, scale);
      return out.add_term(fresh, scale);
    }
  }
}

void Simplifier::accumulate_binary(const Expr& e, int64_t scale, LinearForm& out) {
  const auto* n = e.as<BinaryNode>();
  const auto scaled = [&](int64_t k) {
    return static_cast<int64_t>(static_cast<uint64_t>(scale) * static_cast<uint64_t>(k));
  };
  switch (n->op) {
    case BinaryOp::kAdd:
      accumulate(n->a, scale, out);
      return accumulate(n->b, scale, out);
    case BinaryOp::kSub:
      accumulate(n->a, scale, out);
      return accumulate(n->b, scaled(-1), out);
    case BinaryOp::kMul: {
      if (const int64_t* k = as_int(n->b)) return accumulate(n->a, scaled(*k), out);
      if (const int64_t* k = as_int(n->a)) return accumulate(n->b, scaled(*k), out);
      return out.add(multiply(linear(n->a), linear(n->b)), scale);
    }
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      break;
    default:
      return out.add_term(rewrite_children(e), scale);
  }
  if (n->op == BinaryOp::kFloorDiv || n->op == BinaryOp::kFloorMod) {
    // v / c and v % c, as packed layouts have it.
    const auto* var = n->a.as<VarNode>();
    const int64_t* c = var ? as_int(n->b) : nullptr;
    if (const auto range = c && *c > 1 ? plain_range(var) : std::nullopt;
        range && range->is_bounded() && floordiv_int(range->min, *c) != floordiv_int(range->max, *c))
      return out.add_term(e, scale);
  }
  if (n->op == BinaryOp::kMin || n->op == BinaryOp::kMax) {
    // min(v, c), as balanced tiles have it: bounds say all.
    const auto* var = n->a.as<VarNode>();
    const int64_t* c = var ? as_int(n->b) : nullptr;
    if (const auto range = c ? plain_range(var) : std::nullopt) {
      if (range->max <= *c || range->min >= *c) {
        const bool first = (n->op == BinaryOp::kMin) == (range->max <= *c);
        return first ? accumulate(n->a, scale, out) : out.add_constant(*c, scale);
      }
      return out.add_term(e, scale);
    }
  }
  const bool shared = e->use_count() > 2;  // one reference is the caller's
  if (shared) {
    for (const Remembered& m : memo_)
      if (m.epoch == a_.epoch_ && m.e == e) return out.add(m.form, scale);
  }
  LinearForm form;
  switch (n->op) {
    case BinaryOp::kFloorDiv:
      if (const int64_t* c = as_int(n->b))
        form = divide(linear(n->a), *c);
      else
        form = divide(linear(n->a), linear(n->b));
      break;
    case BinaryOp::kFloorMod:
      if (const int64_t* c = as_int(n->b))
        form = modulo(linear(n->a), *c);
      else
        form = modulo(linear(n->a), linear(n->b));
      break;
    default:
      form = min_or_max(n->op == BinaryOp::kMin, linear(n->a), linear(n->b));
      break;
  }
  out.add(form, scale);
  if (shared && memo_.size() < 32) memo_.push_back({e, a_.epoch_, std::move(form)});
}

Expr Simplifier::product(const Expr& x, const Expr& y) {
  std::vector<Expr> factors;
  collect_factors(x, factors);
  collect_factors(y, factors);
  std::stable_sort(factors.begin(), factors.end(),
                   [this](const Expr& p, const Expr& q) { return compare_terms(a_, p, q) < 0; });
  Expr result = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) result = result * factors[i];
  return result;
}

LinearForm Simplifier::multiply(const LinearForm& x, const LinearForm& y) {
  LinearForm result;
  if (x.is_constant()) {
    result = y;
    result.scale(x.constant);
  } else if (y.is_constant()) {
    result = x;
    result.scale(y.constant);
  } else if (x.terms.size() * y.terms.size() > 16) {
    result.add_term(product(a_.to_expr(x), a_.to_expr(y)), 1);
  } else {
    result.add(x, y.constant);
    for (const LinearTerm& q : y.terms) {
      result.add_term(q.expr, static_cast<int64_t>(static_cast<uint64_t>(x.constant) * static_cast<uint64_t>(q.coeff)));
      for (const LinearTerm& p : x.terms)
        result.add_term(product(p.expr, q.expr),
                        static_cast<int64_t>(static_cast<uint64_t>(p.coeff) * static_cast<uint64_t>(q.coeff)));
    }
  }
  return result;
}

bool Simplifier::always_nonnegative(const LinearForm& form) {
  if (a_.int_bounds(form).min >= 0) return true;
  if (form.terms.empty()) return false;
  bool symbolic = !a_.constraints_.empty();
  for (const LinearTerm& t : form.terms) {
    if (symbolic) break;
    if (const auto* var = t.expr.as<VarNode>()) {
      const int at = a_.rank(var);
      const auto* facts = at >= 0 ? a_.vars_[static_cast<size_t>(at)].symbolic.get() : nullptr;
      symbolic = facts && facts->is_bounded();
    } else {
      symbolic = t.expr.kind() == ExprKind::kBinary || t.expr.kind() == ExprKind::kSelect;
    }
  }
  return symbolic && prove_nonnegative(form, 12);
}

LinearForm Simplifier::min_or_max(bool is_min, LinearForm x, LinearForm y) {
  LinearForm difference = x;
  difference.add(y, -1);
  const Interval bounds = a_.int_bounds(difference);
  if (bounds.max <= 0) return is_min ? x : y;
  if (bounds.min >= 0) return is_min ? y : x;
  if (always_nonnegative(difference)) return is_min ? y : x;
  difference.scale(-1);
  if (always_nonnegative(difference)) return is_min ? x : y;

  LinearForm common;
  extract_common(x, y, common);
  if (x.constant == y.constant) {
    common.constant = x.constant;
    x.constant = y.constant = 0;
  }
  const BinaryOp op = is_min ? BinaryOp::kMin : BinaryOp::kMax;
  // min(min(p, q), y): leave out what the others make redundant.
  for (int swap = 0; swap < 2; ++swap, std::swap(x, y)) {
    if (x.terms.size() != 1 || x.constant != 0 || x.terms[0].coeff != 1) continue;
    const auto* n = x.terms[0].expr.as<BinaryNode>();
    if (!n || n->op != op) continue;
    for (const bool first : {true, false}) {
      LinearForm gap = linear_form(first ? n->a : n->b);  // y - side, or side - y for max
      gap.scale(-1);
      gap.add(y);
      if (!is_min) gap.scale(-1);
      const Interval gap_bounds = a_.int_bounds(gap);
      if (gap_bounds.min >= 0) {  // y is redundant
        common.add(x);
        return common;
      }
      if (gap_bounds.max <= 0) {  // this side is redundant
        common.add(min_or_max(is_min, linear_form(first ? n->b : n->a), y));
        return common;
      }
    }
  }
  // Constants last.
  Expr left = a_.to_expr(std::move(x)), right = a_.to_expr(std::move(y));
  const bool left_constant = as_int(left), right_constant = as_int(right);
  if (left_constant != right_constant ? left_constant : compare_terms(a_, left, right) > 0) std::swap(left, right);
  common.add_term(binary(op, std::move(left), std::move(right)), 1);
  return common;
}

// The range of a variable of which nothing else is known.
std::optional<Interval> Simplifier::plain_range(const VarNode* var) const {
  const int at = a_.rank(var);
  if (at < 0) return std::nullopt;
  const Analyzer::VarFacts& facts = a_.vars_[static_cast<size_t>(at)];
  if (facts.symbolic || facts.mod.coeff != 1) return std::nullopt;
  for (const LinearForm& constraint : a_.constraints_)
    for (const LinearTerm& t : constraint.terms)
      if (t.expr.get() == var) return std::nullopt;
  return facts.range;
}

LinearForm Simplifier::select_form(const Expr& e) {
  const auto* n = e.as<SelectNode>();
  const Expr &if_true = n->if_true, &if_false = n->if_false;
  const Expr c = rewrite_bool(n->condition);
  if (const int64_t* value = as_int(c)) return linear(*value ? if_true : if_false);
  LinearForm x, y, common;
  if (const auto *p = if_true.as<IntImmNode>(), *q = if_false.as<IntImmNode>(); p && q) {
    if (p->value == q->value) return LinearForm(p->value);
    common.add_term(c == n->condition ? e : select(c, if_true, if_false), 1);
    return common;
  }
  {
    const auto scope = assume(c);
    x = linear(if_true);
  }
  {
    const auto scope = assume(logical_not(c));
    y = linear(if_false);
  }
  extract_common(x, y, common);
  if (x.terms.empty() && y.terms.empty() && x.constant == y.constant) {
    common.constant = x.constant;
    return common;
  }
  common.add_term(select(c, a_.to_expr(std::move(x)), a_.to_expr(std::move(y))), 1);
  return common;
}

namespace {

using Leaves = SmallVector<const ExprNode*, 16>;

void collect_leaves(const Expr& e, Leaves& leaves) {
  walk(e, [&](const Expr& x) {
    if (x.kind() == ExprKind::kVar) leaves.push_back(x.get());
    return true;
  });
}

// Whether one may say anything about the other: they have a variable in common, or read memory.
bool share_variables(const Expr& x, const Expr& y) {
  Leaves in_x, in_y;
  collect_leaves(x, in_x);
  collect_leaves(y, in_y);
  for (const ExprNode* v : in_y)
    if (std::find(in_x.begin(), in_x.end(), v) != in_x.end()) return true;
  return in_x.empty() && in_y.empty();
}

}  // namespace

// --- everything else --------------------------------------------------------------------------------------------

namespace {

// Rewrites the direct children with a Simplifier.
class Children : public Mutator {
 public:
  Children(Simplifier& simplifier, const ExprNode* top) : simplifier_(simplifier), top_(top) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (!e) return e;
    return e.get() == top_ ? Mutator::rewrite(e) : simplifier_.rewrite(e);
  }

 private:
  Simplifier& simplifier_;
  const ExprNode* top_;
};

}  // namespace

Expr Simplifier::rewrite_children(const Expr& e) { return Children(*this, e.get()).rewrite(e); }

Expr Simplifier::rewrite(const Expr& e) {
  const DType type = e.dtype();
  if (type == kI64) return to_expr_like(a_, linear(e), e);
  if (type == kBool) return rewrite_bool(e);
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar:
      return e;
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      if (n->condition.dtype() != kBool) return rewrite_children(e);
      const Expr c = rewrite_bool(n->condition);
      if (const int64_t* value = as_int(c)) return rewrite(*value ? n->if_true : n->if_false);
      Expr x, y;
      {
        const auto scope = assume(c);
        x = rewrite(n->if_true);
      }
      {
        const auto scope = assume(logical_not(c));
        y = rewrite(n->if_false);
      }
      if (structural_equal(x, y)) return x;
      if (c == n->condition && x == n->if_true && y == n->if_false) return e;
      return select(c, x, y);
    }
    default:
      return rewrite_children(e);
  }
}

Expr Simplifier::rewrite_bool(const Expr& e) {
  Expr result = e;
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return e;
    case ExprKind::kBinary:
      result = rewrite_bool_binary(*e.as<BinaryNode>(), e);
      break;
    case ExprKind::kNot: {
      const Expr& inner = e.as<NotNode>()->a;
      if (const auto* n = inner.as<BinaryNode>())
        if (const Expr negation = negation_of(*n)) return rewrite_bool(negation);
      result = logical_not(rewrite_bool(inner));
      break;
    }
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      const Expr c = rewrite_bool(n->condition);
      if (const int64_t* value = as_int(c)) return rewrite_bool(*value ? n->if_true : n->if_false);
      result = select(c, rewrite_bool(n->if_true), rewrite_bool(n->if_false));
      break;
    }
    case ExprKind::kCall: {
      const auto* n = e.as<CallNode>();
      if (n->name == "likely" && n->args.size() == 1) {
        const Expr inner = rewrite_bool(n->args[0]);
        if (as_int(inner)) return inner;
        result = call("likely", {inner}, kBool);
        break;
      }
      result = rewrite_children(e);
      break;
    }
    case ExprKind::kVar:
      break;
    default:
      result = rewrite_children(e);
      break;
  }
  if (as_int(result)) return result;
  for (const Expr& truth : a_.truths_) {
    if (structural_equal(truth, result)) return bool_imm(true);
    if (const auto* n = truth.as<NotNode>(); n && structural_equal(n->a, result)) return bool_imm(false);
  }
  return result;
}

Expr Simplifier::rewrite_bool_binary(const BinaryNode& n, const Expr& e) {
  switch (n.op) {
    case BinaryOp::kAnd:
    case BinaryOp::kOr: {
      const bool is_and = n.op == BinaryOp::kAnd;
      Expr x = rewrite_bool(n.a), y;
      if (const int64_t* value = as_int(x)) return (*value != 0) == is_and ? rewrite_bool(n.b) : x;
      if (!share_variables(x, n.b)) {
        y = rewrite_bool(n.b);
        if (const int64_t* value = as_int(y)) return (*value != 0) == is_and ? x : y;
        return is_and ? logical_and(x, y) : logical_or(x, y);
      }
      {
        const auto scope = assume(is_and ? x : logical_not(x));
        y = rewrite_bool(n.b);
      }
      if (const int64_t* value = as_int(y)) return (*value != 0) == is_and ? x : y;
      {
        const auto scope = assume(is_and ? y : logical_not(y));
        Expr narrowed = rewrite_bool(x);
        if (const int64_t* value = as_int(narrowed)) return (*value != 0) == is_and ? y : narrowed;
      }
      return is_and ? logical_and(x, y) : logical_or(x, y);
    }
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe: {
      if (n.a.dtype() != kI64) return rewrite_children(e);
      if (const auto* var = n.op == BinaryOp::kLt ? n.a.as<VarNode>() : nullptr) {
        const int64_t* c = as_int(n.b);
        if (const auto range = c ? plain_range(var) : std::nullopt)
          return range->max < *c ? bool_imm(true) : range->min >= *c ? bool_imm(false) : e;
      }
      const bool equal = n.op == BinaryOp::kEq;
      if (const auto* var = equal || n.op == BinaryOp::kNe ? n.a.as<VarNode>() : nullptr) {
        const int64_t* c = as_int(n.b);
        if (const auto range = c ? plain_range(var) : std::nullopt) {
          if (!range->contains(*c)) return bool_imm(!equal);
          return range->is_single() ? bool_imm(equal) : e;
        }
      }
      LinearForm difference;
      accumulate(n.a, 1, difference);
      accumulate(n.b, -1, difference);
      recombine(difference);
      return compare(n.op, difference);
    }
    default:
      return rewrite_children(e);
  }
}

// difference OP 0
Expr Simplifier::compare(BinaryOp op, const LinearForm& difference) {
  LinearForm d = difference;
  const Interval bounds = a_.int_bounds(d);
  if (op == BinaryOp::kEq || op == BinaryOp::kNe) {
    const bool equal = op == BinaryOp::kEq;
    if (bounds.is_single()) return bool_imm((bounds.min == 0) == equal);
    if (!bounds.contains(0)) return bool_imm(!equal);
    const int64_t g = d.coeff_gcd();
    if (g > 1) {
      if (d.constant % g != 0) return bool_imm(!equal);
      for (LinearTerm& t : d.terms) t.coeff /= g;
      d.constant /= g;
    }
    const Modular mod = a_.modular(d);
    if (mod.coeff > 1 && mod.base != 0) return bool_imm(!equal);
    // Where 0 is the least or greatest value there is nothing more to find; else see whether it is excluded.
    if (bounds.min == 0 || bounds.max == 0 || a_.constraints_.size() > 0) {
      LinearForm positive = d;
      positive.add_constant(-1);
      if (always_nonnegative(positive)) return bool_imm(!equal);
      positive = d;
      positive.scale(-1);
      positive.add_constant(-1);
      if (always_nonnegative(positive)) return bool_imm(!equal);
    }
  } else {
    if (op == BinaryOp::kLe) d.add_constant(-1);  // from here on: d < 0
    const Interval b = op == BinaryOp::kLe
                           ? Interval{detail::saturating_add(bounds.min, -1), detail::saturating_add(bounds.max, -1)}
                           : bounds;
    if (b.max < 0) return bool_imm(true);
    if (b.min >= 0) return bool_imm(false);
    if (always_nonnegative(d)) return bool_imm(false);
    LinearForm negated = d;
    negated.scale(-1);
    negated.add_constant(-1);
    if (always_nonnegative(negated)) return bool_imm(true);
    // R + y // c < 0  ⟺  y + c R < 0        R - y // c < 0  ⟺  c R + c - 1 - y < 0
    for (const LinearTerm& t : d.terms) {
      const auto* division = t.expr.as<BinaryNode>();
      const int64_t* c = division && division->op == BinaryOp::kFloorDiv ? as_int(division->b) : nullptr;
      if (!c || *c <= 0 || (t.coeff != 1 && t.coeff != -1)) continue;
      const int64_t sign = t.coeff;
      LinearForm rest = d, dividend = linear(division->a);
      rest.add_term(t.expr, -sign);
      // Worth it where the two have something to merge; else R + y // c is the form that index maps know.
      bool merges = rest.terms.empty();
      for (const LinearTerm& of_rest : rest.terms) merges |= dividend.coeff_of(of_rest.expr) != 0;
      if (!merges) continue;
      rest.scale(*c);
      rest.add(dividend, sign);
      if (sign < 0) rest.add_constant(*c - 1);
      return compare(BinaryOp::kLt, rest);
    }
    // g A + B < 0  ⟺  A + m < 0 where B stays within [m g, (m + 1) g)
    for (bool again = true; again;) {
      again = false;
      int64_t best = 1, best_period = 0;
      for (const LinearTerm& candidate : d.terms) {
        const int64_t g = candidate.coeff < 0 ? -candidate.coeff : candidate.coeff;
        if (g <= best) continue;
        LinearForm low(d.constant);
        for (const LinearTerm& t : d.terms)
          if (t.coeff % g != 0) low.terms.push_back(t);
        const Interval low_bounds = a_.int_bounds(low);
        if (!low_bounds.is_bounded() || low_bounds.is_empty()) continue;
        const int64_t period = floordiv_int(low_bounds.min, g);
        if (period != floordiv_int(low_bounds.max, g)) continue;
        best = g;
        best_period = period;
      }
      if (const int64_t g = d.coeff_gcd(); g > best) {
        best = g;
        best_period = floordiv_int(d.constant, g);
      }
      if (best > 1) {
        erase_if(d.terms, [&](const LinearTerm& t) { return t.coeff % best != 0; });
        for (LinearTerm& t : d.terms) t.coeff /= best;
        d.constant = best_period;
        again = true;
      }
    }
  }

  LinearForm left, right;
  for (const LinearTerm& t : d.terms) {
    if (t.coeff > 0)
      left.terms.push_back(t);
    else
      right.terms.push_back({t.expr, -t.coeff});
  }
  if (op == BinaryOp::kEq || op == BinaryOp::kNe) {
    if (left.terms.empty()) {
      std::swap(left, right);
      d.constant = -d.constant;
    } else if (!right.terms.empty()) {
      const Expr x = a_.to_expr(left), y = a_.to_expr(right);
      if (compare_terms(a_, x, y) > 0) {
        std::swap(left, right);
        d.constant = -d.constant;
      }
    }
    right.constant = -d.constant;
    return binary(op, a_.to_expr(std::move(left)), a_.to_expr(std::move(right)));
  }
  // left - right + constant < 0
  if (left.terms.empty()) {  // constant < right, or constant + 1 <= right
    return le(Expr(d.constant + 1), a_.to_expr(std::move(right)));
  }
  if (!right.terms.empty() && d.constant == -1) return le(a_.to_expr(std::move(left)), a_.to_expr(std::move(right)));
  right.constant = -d.constant;
  return lt(a_.to_expr(std::move(left)), a_.to_expr(std::move(right)));
}

}  // namespace fettle
