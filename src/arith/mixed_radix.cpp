#include "arith/mixed_radix.h"

#include <algorithm>

#include "ir/visit.h"

namespace fettle {
namespace {

bool same_digit(const Digit& a, const Digit& b) {
  return a.source == b.source && a.lower == b.lower && structural_equal(a.extent, b.extent);
}

// The terms of `form` with coefficients in [k, limit) that k divides; they are removed from it, divided by k.
LinearForm take_terms(LinearForm& form, int64_t k, int64_t limit) {
  LinearForm taken;
  for (size_t i = 0; i < form.terms.size();) {
    const LinearTerm t = form.terms[i];
    if (t.coeff >= k && t.coeff < limit && t.coeff % k == 0) {
      taken.terms.push_back({t.expr, t.coeff / k});
      form.terms.erase(form.terms.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return taken;
}

void sort_terms(DigitSum& sum) {
  std::stable_sort(sum.terms.begin(), sum.terms.end(),
                   [](const SumTerm& x, const SumTerm& y) { return x.scale < y.scale; });
}

}  // namespace

MixedRadix::MixedRadix(const std::vector<VarDomain>& loops, Analyzer& analyzer) : loops_(loops), a_(analyzer) {
  for (const VarDomain& d : loops) sources_.push_back({d.var, d.range.extent, true, {}});
}

bool MixedRadix::uses_loops(const Expr& e) const {
  for (const VarDomain& d : loops_)
    if (uses_var(e, d.var.get())) return true;
  return false;
}

int MixedRadix::add_source(Source source) {
  for (size_t i = 0; i < sources_.size(); ++i)
    if (structural_equal(sources_[i].key, source.key)) return static_cast<int>(i);
  sources_.push_back(std::move(source));
  return static_cast<int>(sources_.size()) - 1;
}

void MixedRadix::add_conjuncts(const Expr& predicate) {
  if (is_true(predicate)) return;
  const auto* n = predicate.as<BinaryNode>();
  if (n && n->op == BinaryOp::kAnd) {
    add_conjuncts(n->a);
    add_conjuncts(n->b);
    return;
  }
  if (const auto* c = predicate.as<CallNode>(); c && c->name == "likely") return add_conjuncts(c->args[0]);
  RadixCondition condition;
  if (n && (n->op == BinaryOp::kLt || n->op == BinaryOp::kLe) && n->a.dtype() == kI64) {
    condition.comparison = true;
    condition.room = linear_form(n->b);
    condition.room.add(linear_form(n->a), -1);
    if (n->op == BinaryOp::kLt) condition.room.add_constant(-1);
  }
  conditions_.push_back(std::move(condition));
}

void MixedRadix::set_predicate(const Expr& predicate) {
  add_conjuncts(predicate);
  // Conditions on plain sums first: divisions of such sums then see their bounds.
  for (const bool plain : {true, false}) {
    for (size_t i = 0; i < conditions_.size(); ++i) {
      if (!conditions_[i].comparison || conditions_[i].parsed) continue;
      LinearForm loops_part, rest(conditions_[i].room.constant);  // room = bound - 1 - sum, or sum - bound
      bool is_plain = true;
      for (const LinearTerm& t : conditions_[i].room.terms) {
        const bool in_loops = uses_loops(t.expr);
        (in_loops ? loops_part : rest).add_term(t.expr, t.coeff);
        is_plain &= !in_loops || t.expr.kind() == ExprKind::kVar;
      }
      if (plain && !is_plain) continue;
      const bool upper = !loops_part.terms.empty() && loops_part.terms[0].coeff < 0;
      if (upper) {
        loops_part.scale(-1);
        rest.add_constant(1);
      } else {
        rest.scale(-1);
      }
      auto sum = parse_form(std::move(loops_part));
      if (!sum || sum->terms.empty()) continue;
      RadixCondition& condition = conditions_[i];
      condition.upper = upper;
      condition.bound = a_.to_expr(std::move(rest));
      condition.sum = std::move(*sum);
      condition.parsed = true;
    }
  }
}

std::optional<DigitSum> MixedRadix::parse(const Expr& e) { return parse_form(linear_form(e)); }

std::optional<DigitSum> MixedRadix::parse_form(LinearForm form) {
  DigitSum sum;
  sum.base.constant = form.constant;
  form.constant = 0;
  for (size_t i = 0; i < form.terms.size();) {
    if (uses_loops(form.terms[i].expr)) {
      ++i;
      continue;
    }
    sum.base.add_term(form.terms[i].expr, form.terms[i].coeff);
    form.terms.erase(form.terms.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (take_balance(form, sum) || take_open_balance(form, sum) || take_shift(form, sum)) {
  }
  for (const LinearTerm& t : form.terms) {
    auto term = parse_term(t.expr, t.coeff);
    if (!term) return std::nullopt;
    sum.terms.push_back(std::move(*term));
  }
  sort_terms(sum);
  return sum;
}

std::optional<SumTerm> MixedRadix::parse_term(const Expr& e, int64_t coeff) {
  if (coeff <= 0) return std::nullopt;
  std::optional<Digit> digit;
  if (const auto* n = e.as<BinaryNode>()) {
    const int64_t* c = as_int(n->b);
    if (!c || *c <= 0) return std::nullopt;
    if (n->op == BinaryOp::kFloorDiv) {
      digit = part_of(n->a, *c, 0);
    } else if (n->op == BinaryOp::kFloorMod) {
      const auto* inner = n->a.as<BinaryNode>();
      const int64_t* d = inner && inner->op == BinaryOp::kFloorDiv ? as_int(inner->b) : nullptr;
      if (d && *d > 0)
        digit = part_of(inner->a, *d, *c);
      else
        digit = part_of(n->a, 1, *c);
    }
  } else if (e.kind() == ExprKind::kVar) {
    digit = part_of(e, 1, 0);
  }
  if (!digit) return std::nullopt;
  return SumTerm{coeff, std::move(*digit)};
}

// (e / lower) % modulus; modulus 0: none.
std::optional<Digit> MixedRadix::part_of(const Expr& e, int64_t lower, int64_t modulus) {
  int source = -1;
  for (size_t i = 0; i < sources_.size(); ++i)
    if (structural_equal(sources_[i].key, e)) source = static_cast<int>(i);
  if (source < 0) {
    auto sum = parse(e);
    if (!sum) return std::nullopt;
    const auto made = composite(e, std::move(*sum));
    if (!made) return std::nullopt;
    source = *made;
  }
  const Expr& extent = sources_[static_cast<size_t>(source)].extent;
  const Expr groups = lower == 1 ? extent : a_.simplify(floordiv(extent + (lower - 1), Expr(lower)));
  if (modulus == 0) return Digit{source, lower, groups, true};
  // A remainder of less than a period is the whole rest.
  const Interval bounds = a_.int_bounds(groups);
  if (bounds.max <= modulus) return Digit{source, lower, groups, true};
  if (bounds.min < modulus) return std::nullopt;
  return Digit{source, lower, Expr(modulus), false};
}

// The range of a sum that takes every value from 0 on; nothing for others.
std::optional<SumRange> MixedRadix::dense_range(DigitSum& sum) {
  const auto range = range_of(sum, false);
  return range && range->dense && is_zero(range->low) ? range : std::nullopt;
}

// A dense sum from 0 as a source of its own.
std::optional<int> MixedRadix::composite(const Expr& key, DigitSum sum) {
  if (!sum.base.is_zero()) return std::nullopt;
  const auto range = dense_range(sum);
  if (!range) return std::nullopt;
  return add_source({key, range->extent, range->injective, std::move(sum.terms)});
}

namespace {

// The condition w < q + (x < r ? 1 : 0).
struct BalanceCondition {
  LinearForm w, x;
  Expr x_expr;
  int64_t q, r;
};

std::optional<BalanceCondition> balance_condition(const LinearForm& room) {
  BalanceCondition b;
  const SelectNode* s = nullptr;
  for (const LinearTerm& t : room.terms) {
    const auto* select = t.expr.as<SelectNode>();
    if (select && t.coeff == 1 && !s)
      s = select;
    else if (t.coeff < 0 && t.coeff != INT64_MIN)
      b.w.terms.push_back({t.expr, -t.coeff});
    else
      return std::nullopt;
  }
  if (!s || b.w.terms.empty()) return std::nullopt;
  const int64_t *more = as_int(s->if_true), *less = as_int(s->if_false);
  const auto* test = s->condition.as<BinaryNode>();
  if (!more || !less || *more != *less + 1 || !test || test->op != BinaryOp::kLt) return std::nullopt;
  const int64_t* r = as_int(test->b);
  if (!r || *r <= 0) return std::nullopt;
  b.q = room.constant + 1 + *less;
  b.r = *r;
  b.x_expr = test->a;
  b.x = linear_form(test->a);
  if (b.q <= 0 || b.x.terms.empty() || b.x.constant != 0) return std::nullopt;
  return b;
}

// The factor k with which all terms of `part` stand in `form`; 0 if there is none.
int64_t factor_in(const LinearForm& form, const LinearForm& part) {
  int64_t k = 0;
  for (const LinearTerm& t : part.terms) {
    const int64_t coeff = form.coeff_of(t.expr);
    if (coeff <= 0 || coeff % t.coeff != 0 || (k != 0 && coeff / t.coeff != k)) return 0;
    k = coeff / t.coeff;
  }
  return k;
}

}  // namespace

// Adds k * source to the sum, where the source has the digits of `high`, too, `scale` times.
void MixedRadix::add_two_part(DigitSum& sum, int64_t k, Source source, const DigitSum& high, int64_t scale) {
  for (SumTerm t : high.terms) {
    t.scale *= scale;
    source.parts.push_back(t);
  }
  const Expr extent = source.extent;
  sum.terms.push_back({k, Digit{add_source(std::move(source)), 1, extent, true}});
}

// k*(x*q + min(x, r) + w), where w < q + (x < r ? 1 : 0): a source of extent n*q + r. Where r = n - 1 the min is x.
bool MixedRadix::take_balance(LinearForm& form, DigitSum& sum) {
  // The innermost split first, which has the smallest factor.
  std::optional<BalanceCondition> found;
  RadixCondition* of_found = nullptr;
  int64_t k = 0;
  LinearForm rest, key;
  for (RadixCondition& condition : conditions_) {
    if (!condition.comparison) continue;
    auto b = balance_condition(condition.room);
    if (!b) continue;
    const int64_t factor = factor_in(form, b->w);
    if (factor <= 0 || (found && factor >= k)) continue;
    const Expr smaller = min(b->x_expr, Expr(b->r));
    LinearForm part = b->w;
    if (form.coeff_of(smaller) == factor) {
      part.add_term(smaller, 1);
      part.add(b->x, b->q);
    } else {
      part.add(b->x, b->q + 1);
    }
    if (factor_in(form, part) != factor) continue;
    k = factor;
    rest = form;
    rest.add(part, -factor);
    key = std::move(part);
    found = std::move(b);
    of_found = &condition;
  }
  if (!found) return false;
  const bool without_min = key.coeff_of(min(found->x_expr, Expr(found->r))) == 0;
  auto x_sum = parse_form(found->x), w_sum = parse_form(found->w);
  if (!x_sum || !w_sum) return false;
  const auto x_range = dense_range(*x_sum), w_range = dense_range(*w_sum);
  if (!x_range || !w_range || !a_.can_prove(le(found->q + 1, w_range->extent)) ||
      !a_.can_prove(le(found->r, x_range->extent)) ||
      (without_min && !a_.can_prove_equal(x_range->extent, found->r + 1)))
    return false;
  // The condition makes a source of its own: the key must differ from that of the same sum without it.
  const Expr extent = a_.simplify(x_range->extent * Expr(found->q) + Expr(found->r));
  const bool injective = x_range->injective && w_range->injective;
  of_found->used = true;
  add_two_part(sum, k, {floormod(a_.to_expr(key), extent), extent, injective, w_sum->terms}, *x_sum, found->q + 1);
  form = std::move(rest);
  return true;
}

namespace {

// The condition w < length of open_balance(x, w, count, tile).
struct OpenBalanceCondition {
  LinearForm x, w;
  Expr count;
  int64_t tile = 0;
};

std::optional<OpenBalanceCondition> open_balance_condition(const LinearForm& room, const MixedRadix& radix,
                                                           Analyzer& analyzer) {
  OpenBalanceCondition b;
  Expr length;
  for (const LinearTerm& t : room.terms) {
    if (t.expr.as<SelectNode>() && t.coeff == 1 && !length)
      length = t.expr;
    else if (t.coeff < 0 && t.coeff != INT64_MIN)
      b.w.terms.push_back({t.expr, -t.coeff});
    else
      return std::nullopt;
  }
  if (!length || b.w.terms.empty() || room.constant != -1) return std::nullopt;
  const auto* is_inside = length.as<SelectNode>()->condition.as<BinaryNode>();
  const auto* whole = length.as<SelectNode>()->if_true.as<SelectNode>();
  const int64_t* tile = whole ? as_int(whole->if_true) : nullptr;
  if (!is_inside || is_inside->op != BinaryOp::kLt || !tile || *tile < 2) return std::nullopt;
  b.tile = *tile;
  // (x + 1)*tile < count
  LinearForm count = linear_form(is_inside->b - is_inside->a);
  for (size_t i = 0; i < count.terms.size();) {
    const LinearTerm t = count.terms[i];
    if (!radix.uses_loops(t.expr)) {
      ++i;
      continue;
    }
    if (t.coeff > 0 || t.coeff % b.tile != 0) return std::nullopt;
    b.x.terms.push_back({t.expr, -t.coeff / b.tile});
    count.terms.erase(count.terms.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (b.x.terms.empty()) return std::nullopt;
  count.add_constant(b.tile);
  b.count = analyzer.to_expr(std::move(count));
  const Expr x = analyzer.to_expr(b.x);
  const Expr expected = analyzer.simplify(open_balance(x, analyzer.to_expr(b.w), b.count, b.tile).length);
  return structural_equal(expected, length) ? std::optional(std::move(b)) : std::nullopt;
}

}  // namespace

// k times the index of open_balance(x, w, count, tile): a source of extent `count`.
bool MixedRadix::take_open_balance(LinearForm& form, DigitSum& sum) {
  for (RadixCondition& condition : conditions_) {
    if (!condition.comparison) continue;
    const auto b = open_balance_condition(condition.room, *this, a_);
    const int64_t k = b ? factor_in(form, b->w) : 0;
    if (k <= 0) continue;
    const Expr index = open_balance(a_.to_expr(b->x), a_.to_expr(b->w), b->count, b->tile).index;
    LinearForm key = linear_form(a_.simplify(index)), rest = form;
    rest.add(key, -k);
    if (std::ranges::any_of(key.terms, [&](const LinearTerm& t) { return rest.coeff_of(t.expr) != 0; })) continue;
    auto x_sum = parse_form(b->x), w_sum = parse_form(b->w);
    if (!x_sum || !w_sum) return false;
    const auto x_range = dense_range(*x_sum), w_range = dense_range(*w_sum);
    const Expr tiles = floordiv(b->count + Expr(b->tile - 1), b->tile);
    if (!x_range || !w_range || !a_.can_prove(le(b->tile, w_range->extent)) ||
        !a_.can_prove_equal(x_range->extent, tiles))
      return false;
    // The key must differ from that of the same sum without the condition.
    const bool injective = x_range->injective && w_range->injective;
    condition.used = true;
    add_two_part(sum, k, {floormod(a_.to_expr(key), b->count), b->count, injective, w_sum->terms}, *x_sum, b->tile);
    form = std::move(rest);
    return true;
  }
  return false;
}

// k*(min(x*f, c) + w): overlapping last tile, extent c + |w|.
bool MixedRadix::take_shift(LinearForm& form, DigitSum& sum) {
  for (const LinearTerm& candidate : form.terms) {
    const auto* n = candidate.expr.as<BinaryNode>();
    if (!n || n->op != BinaryOp::kMin || candidate.coeff <= 0 || uses_loops(n->b)) continue;
    const int64_t k = candidate.coeff;
    LinearForm x = linear_form(n->a);
    if (x.terms.empty() || x.constant != 0) continue;
    const int64_t f = x.coeff_gcd();
    for (LinearTerm& t : x.terms) t.coeff /= f;
    LinearForm rest = form;
    rest.add_term(candidate.expr, -k);
    const LinearForm w = take_terms(rest, k, f * k);
    auto x_sum = parse_form(x), w_sum = parse_form(w);
    if (!x_sum || !w_sum) return false;
    const auto x_range = dense_range(*x_sum), w_range = dense_range(*w_sum);
    if (!x_range || !w_range || !a_.can_prove(le(f, w_range->extent)) ||
        !a_.can_prove(le(n->b, (x_range->extent - 1) * Expr(f))) || !a_.can_prove(le(0, n->b)))
      return false;
    LinearForm key_form = w;
    key_form.add_term(candidate.expr, 1);
    const Expr extent = a_.simplify(n->b + w_range->extent);
    add_two_part(sum, k, {a_.to_expr(key_form), extent, false, w_sum->terms}, *x_sum, f);
    form = rest;
    return true;
  }
  return false;
}

// Where an upper condition bounds a run of the terms, one digit with the smaller extent takes their place.
bool MixedRadix::collapse(DigitSum& sum, RadixCondition& condition) {
  const auto& wanted = condition.sum.terms;
  if (!condition.parsed || !condition.upper || !condition.sum.base.is_zero() || wanted.empty() ||
      wanted.size() > sum.terms.size())
    return false;
  for (size_t at = 0; at + wanted.size() <= sum.terms.size(); ++at) {
    if (sum.terms[at].scale % wanted[0].scale != 0) continue;
    const int64_t k = sum.terms[at].scale / wanted[0].scale;
    const auto scaled = [&](const SumTerm& x, const SumTerm& y) {
      return x.scale * k == y.scale && same_digit(x.digit, y.digit);
    };
    if (!std::equal(wanted.begin(), wanted.end(), sum.terms.begin() + static_cast<std::ptrdiff_t>(at), scaled))
      continue;
    DigitSum run;
    LinearForm key_form;
    for (const SumTerm& t : wanted) {
      run.terms.push_back(t);
      // A key that names the digits.
      const Source& s = sources_[static_cast<size_t>(t.digit.source)];
      Expr part = t.digit.lower == 1 ? s.key : floordiv(s.key, Expr(t.digit.lower));
      if (!t.digit.top) part = floormod(part, t.digit.extent);
      key_form.add_term(part, t.scale);
    }
    const auto range = plain_range(run);
    if (!range || !range->dense) return false;
    const Expr bound = a_.simplify(min(condition.bound, range->extent));
    // The key must differ from that of the same sum without the condition.
    Source source{floormod(a_.to_expr(key_form), condition.bound), bound, range->injective, std::move(run.terms)};
    if (wanted.size() == 1 && structural_equal(bound, wanted[0].digit.extent)) {
      condition.used = true;
      return false;
    }
    const int id = add_source(std::move(source));
    condition.used = true;
    sum.terms.erase(sum.terms.begin() + static_cast<std::ptrdiff_t>(at + 1),
                    sum.terms.begin() + static_cast<std::ptrdiff_t>(at + wanted.size()));
    sum.terms[at] = {k, Digit{id, 1, bound, true}};
    return true;
  }
  return false;
}

std::optional<SumRange> MixedRadix::plain_range(const DigitSum& sum) {
  SumRange range;
  for (const SumTerm& t : sum.terms) {
    const Source& source = sources_[static_cast<size_t>(t.digit.source)];
    range.injective &= source.injective;
    if (is_one(t.digit.extent)) continue;
    if (const int64_t* so_far = as_int(range.extent)) {
      if (t.scale > *so_far) range.dense = false;
      if (t.scale < *so_far) range.injective = false;
    } else {
      const Interval gap = a_.int_bounds(Expr(t.scale) - range.extent);
      if (gap.max > 0 && gap.min <= 0) return std::nullopt;
      if (gap.min > 0) range.dense = false;
      if (gap.max < 0) range.injective = false;
    }
    range.extent = a_.simplify((t.digit.extent - 1) * Expr(t.scale) + range.extent);
  }
  return range;
}

std::optional<SumRange> MixedRadix::range_of(DigitSum& sum, bool whole_binding) {
  // Conditions over fewer digits first: they bound parts of what the others bound.
  std::vector<RadixCondition*> by_size;
  for (RadixCondition& c : conditions_) by_size.push_back(&c);
  std::stable_sort(by_size.begin(), by_size.end(), [](const RadixCondition* x, const RadixCondition* y) {
    return x->sum.terms.size() < y->sum.terms.size();
  });
  for (RadixCondition* c : by_size) {
    if (!collapse(sum, *c)) continue;
    // Later conditions speak of the digits that this one has merged.
    for (RadixCondition* other : by_size)
      if (other != c && other->parsed && !other->used) collapse(other->sum, *c);
  }
  auto range = plain_range(sum);
  if (!range || !whole_binding) return range;
  // A lower bound, or an upper one that counts the base, on the whole of a binding.
  for (RadixCondition& c : conditions_) {
    const auto same = [](const SumTerm& x, const SumTerm& y) {
      return x.scale == y.scale && same_digit(x.digit, y.digit);
    };
    if (!c.parsed || c.used || c.upper || !std::ranges::equal(c.sum.terms, sum.terms, same)) continue;
    c.used = true;
    const Expr low = a_.simplify(max(c.bound, range->low));
    range->extent = a_.simplify(range->extent - (low - range->low));
    range->low = low;
  }
  return range;
}

}  // namespace fettle
