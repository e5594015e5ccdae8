#include "arith/plain_map.h"

#include <functional>

#include "ir/query.h"

namespace fettle {
namespace {

// Bounds and factors are so small, and loops so few, that nothing below overflows.
constexpr int64_t kLargest = int64_t{1} << 29;
constexpr size_t kMostTerms = 16;

bool is_moderate(int64_t value) { return -kLargest <= value && value <= kLargest; }

const PlainLoop* find_loop(std::span<const PlainLoop> loops, const ExprNode* var) {
  for (const PlainLoop& loop : loops)
    if (loop.var == var) return &loop;
  return nullptr;
}

bool uses_any(const Expr& e, std::span<const PlainLoop> loops) {
  switch (e.kind()) {
    case ExprKind::kIntImm:
      return false;
    case ExprKind::kVar:
      return find_loop(loops, e.get());
    default:
      return std::ranges::any_of(loops, [&](const PlainLoop& loop) { return uses_var(e, loop.var); });
  }
}

// op(loop, constant).
struct Limited {
  const PlainLoop* loop = nullptr;
  int64_t limit = 0;
  bool is_min = false;

  int64_t at(int64_t value) const { return is_min ? std::min(value, limit) : std::max(value, limit); }
};

std::optional<Limited> limited_loop(const Expr& e, std::span<const PlainLoop> loops) {
  const auto* n = e.as<BinaryNode>();
  if (!n || (n->op != BinaryOp::kMin && n->op != BinaryOp::kMax)) return std::nullopt;
  const PlainLoop* loop = find_loop(loops, n->a.get());
  const int64_t* limit = loop ? as_int(n->b) : nullptr;
  if (!limit || !is_moderate(*limit)) return std::nullopt;
  return Limited{loop, *limit, n->op == BinaryOp::kMin};
}

// A part of a binding's number: coeff * [0, extent).
struct PlainDigit {
  int64_t coeff = 1, extent = 1;
  const PlainLoop* loop = nullptr;  // null: several, merged
  bool dense = true, injective = true;
};
using Digits = SmallVector<PlainDigit, 6>;

// One number of several digits; they are sorted.
PlainDigit merged(Digits& digits) {
  std::sort(digits.begin(), digits.end(), [](const PlainDigit& x, const PlainDigit& y) { return x.coeff < y.coeff; });
  PlainDigit sum;
  for (const PlainDigit& d : digits) {
    sum.dense &= d.dense && d.coeff <= sum.extent;
    sum.injective &= d.injective && d.coeff >= sum.extent;
    sum.extent += d.coeff * (d.extent - 1);
  }
  return sum;
}

class Reader {
 public:
  explicit Reader(std::span<const PlainLoop> loops) : loops_(loops) {}

  bool read(const Expr& e) {
    PlainSum sum;
    if (!add_plain(sum, e, 1, {}, loops_)) return false;
    Number& number = numbers_.emplace_back();
    number.base = std::move(sum.outer);
    number.base.constant = sum.constant;
    for (const PlainTerm& t : sum.terms) {
      const PlainLoop* loop = &loops_[t.loop];
      if (t.limited) {
        if (number.limited.loop || !t.is_min || loop->min != 0) return false;
        number.limited = {loop, t.limit, true};
        number.limited_coeff = t.coeff;
        continue;
      }
      number.base.add_constant(loop->min, t.coeff);
      if (loop->extent == 1) continue;
      if (t.coeff <= 0) return false;
      number.digits.push_back({t.coeff, loop->extent, loop});
      used_.push_back(loop);
    }
    return simplify_limit(number);
  }

  void add_predicate(const Expr& predicate) {
    if (is_true(predicate)) return;
    const auto* n = predicate.as<BinaryNode>();
    if (n && n->op == BinaryOp::kAnd) {
      add_predicate(n->a);
      add_predicate(n->b);
    } else if (!n || (n->op != BinaryOp::kLt && n->op != BinaryOp::kLe) || n->a.dtype() != kI64) {
      understood_ = false;
    } else {
      LinearForm room = linear_form(n->b);  // the condition: room >= 0
      room.add(linear_form(n->a), -1);
      if (n->op == BinaryOp::kLt) room.add_constant(-1);
      understood_ &= room.terms.size() <= kMostTerms && is_moderate(room.constant) && add_condition(room);
    }
  }

  std::optional<PlainMap> result() {
    std::optional<PlainMap> made(std::in_place);  // returned as it is
    PlainMap& map = *made;
    map.injective = true;
    map.dense = understood_;
    for (size_t i = 0; i < used_.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (used_[i] == used_[j]) return std::nullopt;
    for (Number& number : numbers_) {
      if (number.limited.loop) return std::nullopt;
      const PlainDigit all = merged(number.digits);
      map.injective &= all.injective;
      map.dense &= all.dense;
      map.bindings.push_back({std::move(number.base), all.extent, all.dense});
    }
    for (const PlainLoop& loop : loops_)
      map.injective &= loop.extent == 1 || std::find(used_.begin(), used_.end(), &loop) != used_.end();
    return made;
  }

 private:
  struct Number {
    LinearForm base;
    Digits digits;
    Limited limited;  // + limited_coeff * min(loop, limit); no loop: none
    int64_t limited_coeff = 0;
  };

  // A limit that is never, or always, met.
  static bool simplify_limit(Number& number) {
    const PlainLoop* loop = number.limited.loop;
    if (!loop) return true;
    if (number.limited.limit <= 0) {
      number.base.add_constant(number.limited.limit, number.limited_coeff);
    } else if (loop->extent - 1 <= number.limited.limit) {
      const auto at =
          std::find_if(number.digits.begin(), number.digits.end(), [&](const PlainDigit& d) { return d.loop == loop; });
      if (at == number.digits.end()) {
        if (loop->extent != 1) return false;
      } else {
        at->coeff += number.limited_coeff;
        if (at->coeff <= 0) return false;
      }
    } else {
      return number.limited_coeff > 0;
    }
    number.limited.loop = nullptr;
    return true;
  }

  // Whether the condition has been made use of.
  bool add_condition(const LinearForm& room) {
    const SelectNode* choice = nullptr;
    int64_t least = room.constant;  // of room
    int64_t bound = room.constant + 1;
    Digits bounded;  // the condition: their sum < bound
    bool upper = true;
    for (const LinearTerm& t : room.terms) {
      if (!is_moderate(t.coeff)) return false;
      if (const auto* select = t.expr.as<SelectNode>(); select && t.coeff == 1 && !choice) {
        choice = select;
        continue;
      }
      const PlainLoop* loop = find_loop(loops_, t.expr.get());
      if (!loop) return false;
      least += t.coeff * (t.coeff > 0 ? loop->min : loop->min + loop->extent - 1);
      bound += t.coeff * loop->min;
      upper &= t.coeff < 0;
      if (loop->extent > 1) bounded.push_back({-t.coeff, loop->extent, loop});
    }
    if (!choice && least >= 0) return true;  // always
    if (!upper || bounded.empty()) return false;
    return choice ? take_balance(*choice, bound, bounded) : take_guard(bound, bounded);
  }

  // The number that has all digits of `part`, each `factor` times.
  Number* find_digits(const Digits& part, int64_t* factor) {
    for (Number& number : numbers_) {
      *factor = 0;
      size_t found = 0;
      for (const PlainDigit& p : part)
        for (const PlainDigit& d : number.digits) {
          if (d.loop != p.loop || d.coeff % p.coeff != 0) continue;
          if (*factor != 0 && d.coeff / p.coeff != *factor) continue;
          *factor = d.coeff / p.coeff;
          ++found;
        }
      if (found == part.size()) return &number;
    }
    return nullptr;
  }

  static void remove(Digits& digits, const PlainLoop* loop) {
    erase_if(digits, [&](const PlainDigit& d) { return d.loop == loop; });
  }

  // sum < bound
  bool take_guard(int64_t bound, Digits& part) {
    int64_t factor;
    Number* number = bound > 0 ? find_digits(part, &factor) : nullptr;
    if (!number || (number->limited.loop && std::any_of(part.begin(), part.end(), [&](const PlainDigit& d) {
                      return d.loop == number->limited.loop;
                    })))
      return false;
    for (const PlainDigit& d : part) remove(number->digits, d.loop);
    PlainDigit sum = merged(part);
    sum.coeff = factor;
    sum.extent = std::min(sum.extent, bound);
    number->digits.push_back(sum);
    return true;
  }

  // w < bound + (x < r ? more : less) in factor*(x*q + min(x, r) + w): a number in [0, n*q + r).
  bool take_balance(const SelectNode& choice, int64_t bound, Digits& w) {
    const int64_t *more = as_int(choice.if_true), *less = as_int(choice.if_false);
    const auto* test = choice.condition.as<BinaryNode>();
    if (!more || !less || *more != *less + 1 || !is_moderate(*less) || !test || test->op != BinaryOp::kLt) return false;
    const PlainLoop* x = find_loop(loops_, test->a.get());
    const int64_t* r = x ? as_int(test->b) : nullptr;
    const int64_t q = bound + *less;
    if (!r || *r <= 0 || !is_moderate(*r) || q <= 0 || x->min != 0) return false;
    int64_t factor;
    Number* number = find_digits(w, &factor);
    if (!number) return false;
    const auto of_x =
        std::find_if(number->digits.begin(), number->digits.end(), [&](const PlainDigit& d) { return d.loop == x; });
    if (of_x == number->digits.end() ||
        std::any_of(w.begin(), w.end(), [&](const PlainDigit& d) { return d.loop == x; }))
      return false;
    const bool limited = number->limited.loop == x;
    // Where x never exceeds r, min(x, r) is x.
    if (limited ? number->limited.limit != *r || number->limited_coeff != factor || of_x->coeff != factor * q
                : x->extent > *r + 1 || of_x->coeff != factor * (q + 1))
      return false;
    remove(number->digits, x);
    for (const PlainDigit& d : w) remove(number->digits, d.loop);
    if (limited) number->limited.loop = nullptr;
    PlainDigit sum = merged(w);
    sum.dense &= sum.extent > q;
    sum.coeff = factor;
    sum.extent = x->extent * q + std::min(x->extent, *r);
    number->digits.push_back(sum);
    return is_moderate(sum.extent);
  }

  std::span<const PlainLoop> loops_;
  SmallVector<Number, 4> numbers_;
  SmallVector<const PlainLoop*, 12> used_;
  bool understood_ = true;
};

}  // namespace

bool add_plain_loop(PlainLoops& loops, const VarNode* var, const Expr& min, const Expr& extent) {
  const int64_t *first = as_int(min), *count = as_int(extent);
  if (!first || !count || !is_moderate(*first) || !is_moderate(*count) || *count <= 0) return false;
  loops.push_back({var, *first, *count});
  return true;
}

bool add_plain_loops(PlainLoops& loops, std::span<const ForNode* const> nest) {
  return std::ranges::all_of(
      nest, [&](const ForNode* loop) { return add_plain_loop(loops, loop->var.get(), loop->min, loop->extent); });
}

bool add_plain(PlainSum& sum, const Expr& e, int64_t scale, std::span<const IterVar> iters,
               std::span<const PlainLoop> loops) {
  if (const auto* imm = e.as<IntImmNode>()) {
    sum.constant += scale * imm->value;
    return is_moderate(imm->value) && is_moderate(sum.constant);
  }
  const auto add_loop = [&](const PlainLoop& loop, const Limited* limited) {
    PlainTerm term{static_cast<size_t>(&loop - loops.data()), scale};
    if (limited) {
      term.limited = true;
      term.is_min = limited->is_min;
      term.limit = limited->limit;
    }
    for (const PlainTerm& t : sum.terms)
      if (t.loop == term.loop && t.limited == term.limited) return false;
    sum.terms.push_back(term);
    return sum.terms.size() <= kMostTerms;
  };
  if (e.kind() == ExprKind::kVar) {
    for (const IterVar& iter : iters)
      if (iter.var.get() == e.get()) return add_plain(sum, iter.binding, scale, {}, loops);
    if (const PlainLoop* loop = find_loop(loops, e.get())) return add_loop(*loop, nullptr);
    sum.outer.add_term(e, scale);
    return true;
  }
  if (const auto* n = e.as<BinaryNode>()) {
    switch (n->op) {
      case BinaryOp::kAdd:
        return add_plain(sum, n->a, scale, iters, loops) && add_plain(sum, n->b, scale, iters, loops);
      case BinaryOp::kSub:
        return add_plain(sum, n->a, scale, iters, loops) && add_plain(sum, n->b, -scale, iters, loops);
      case BinaryOp::kMul:
        for (const bool swapped : {false, true}) {
          const int64_t* k = as_int(swapped ? n->a : n->b);
          if (!k) continue;
          return is_moderate(*k) && is_moderate(scale * *k) && *k != 0 &&
                 add_plain(sum, swapped ? n->b : n->a, scale * *k, iters, loops);
        }
        break;
      default:
        if (const auto limited = limited_loop(e, loops)) return add_loop(*limited->loop, &*limited);
        break;
    }
  }
  if (uses_any(e, loops) || contains(e, {ExprKind::kLoad, ExprKind::kCall})) return false;
  for (const IterVar& iter : iters)
    if (uses_var(e, iter.var.get())) return false;
  sum.outer.add_term(e, scale);
  return true;
}

std::optional<LinearForm> plain_linear(const Expr& e, std::span<const PlainLoop> loops) {
  const LinearForm form = linear_form(e);
  LinearForm result(form.constant);
  for (const LinearTerm& t : form.terms) {
    const PlainLoop* loop = find_loop(loops, t.expr.get());
    if (loop && loop->extent == 1) {
      result.add_constant(loop->min, t.coeff);
    } else if (t.expr.kind() == ExprKind::kVar) {
      result.add_term(t.expr, t.coeff);
    } else if (const auto limited = limited_loop(t.expr, loops)) {
      const int64_t first = limited->loop->min, last = first + limited->loop->extent - 1;
      if (limited->at(first) == limited->at(last))
        result.add_constant(limited->at(first), t.coeff);
      else if (limited->at(first) == first && limited->at(last) == last)
        result.add_term(t.expr.as<BinaryNode>()->a, t.coeff);
      else
        result.add_term(t.expr, t.coeff);
    } else {
      return std::nullopt;
    }
  }
  return result;
}

PlainRange plain_range(PlainSum sum, std::span<const PlainLoop> loops) {
  PlainRange range{std::move(sum.outer), sum.constant, sum.constant};
  for (const PlainTerm& t : sum.terms) {
    const PlainLoop& loop = loops[t.loop];
    const int64_t first = t.at(loop.min), last = t.at(loop.min + loop.extent - 1);
    range.low += t.coeff * (t.coeff > 0 ? first : last);
    range.high += t.coeff * (t.coeff > 0 ? last : first);
  }
  return range;
}

bool plain_covers(const PlainRange& outer, const PlainRange& inner) {
  if (outer.low > inner.low || inner.high > outer.high || outer.outer.terms.size() != inner.outer.terms.size())
    return false;
  for (const LinearTerm& t : inner.outer.terms)
    if (outer.outer.coeff_of(t.expr) != t.coeff) return false;
  return true;
}

namespace {

// Whether from(base) and to(end, extent) hold for each binding base + [0, end - base) and the domain's extent.
template <class From, class To>
bool all_bindings(const PlainMap& map, std::span<const Expr> extents, From from, To to) {
  for (size_t k = 0; k < map.bindings.size(); ++k) {
    const PlainBinding& b = map.bindings[k];
    const int64_t* extent = as_int(extents[k]);
    if (!b.base.is_constant() || !extent) return false;
    if (!from(b.base.constant, 0) || !to(b.base.constant + b.extent, *extent)) return false;
  }
  return true;
}

}  // namespace

bool PlainMap::covers(std::span<const Expr> extents) const {
  return dense && all_bindings(*this, extents, std::less_equal<int64_t>(), std::greater_equal<int64_t>());
}

bool PlainMap::stays_in(std::span<const Expr> extents) const {
  return all_bindings(*this, extents, std::greater_equal<int64_t>(), std::less_equal<int64_t>());
}

namespace {

// A quotient or remainder of a loop by constants, as fusing leaves them: (v // from) % (to / from). to 0: no remainder.
struct DigitRange {
  const PlainLoop* loop = nullptr;
  int64_t from = 1, to = 0;
};

std::optional<DigitRange> digits_named(const Expr& e, std::span<const PlainLoop> loops) {
  const auto* n = e.as<BinaryNode>();
  if (!n || (n->op != BinaryOp::kFloorDiv && n->op != BinaryOp::kFloorMod)) return std::nullopt;
  const int64_t* c = as_int(n->b);
  if (!c || *c <= 0 || *c > kLargest) return std::nullopt;
  if (n->a.kind() == ExprKind::kVar) {
    const PlainLoop* loop = find_loop(loops, n->a.get());
    if (!loop || loop->min != 0) return std::nullopt;
    return n->op == BinaryOp::kFloorDiv ? DigitRange{loop, *c, 0} : DigitRange{loop, 1, *c};
  }
  auto inner = digits_named(n->a, loops);
  if (!inner) return std::nullopt;
  if (n->op == BinaryOp::kFloorMod) {
    // (v // d) % c; a remainder of a remainder is not looked into.
    if (inner->to != 0 || inner->from > kLargest / *c) return std::nullopt;
    return DigitRange{inner->loop, inner->from, inner->from * *c};
  }
  if (inner->from > kLargest / *c) return std::nullopt;
  return DigitRange{inner->loop, inner->from * *c, inner->to};
}

// Fused loops taken apart: each digit of theirs that is named becomes a loop of its own.
//   f in 32; f // 4, f % 4   →   f_1 in 8, f_0 in 4; f_1, f_0
class Digitizer {
 public:
  explicit Digitizer(std::span<const PlainLoop> loops) : loops_(loops) {}

  // Notes where digits begin; false where a loop is divided in another way.
  bool note(const Expr& e) {
    if (e.kind() == ExprKind::kIntImm || e.kind() == ExprKind::kVar) return true;
    if (const auto* choice = e.as<SelectNode>())
      return note(choice->condition) && note(choice->if_true) && note(choice->if_false);
    const auto* n = e.as<BinaryNode>();
    if (!n) return !uses_any(e, loops_);
    if (n->op != BinaryOp::kFloorDiv && n->op != BinaryOp::kFloorMod) return note(n->a) && note(n->b);
    const auto digits = digits_named(e, loops_);
    if (!digits) return !uses_any(e, loops_);
    found_ = true;
    auto& starts = of(digits->loop).starts;
    for (const int64_t at : {digits->from, digits->to})
      if (at > 1 && std::find(starts.begin(), starts.end(), at) == starts.end()) starts.push_back(at);
    return true;
  }
  bool found() const { return found_; }
  std::vector<Var> variables() const {
    std::vector<Var> result;
    for (const Parted& p : parted_)
      for (const Digit& d : p.digits) result.push_back(d.var);
    return result;
  }

  // The loops with their digits in place of them; false where they are no whole numbers of each other.
  bool split(PlainLoops& digits) {
    for (const PlainLoop& loop : loops_) {
      const auto parted =
          std::find_if(parted_.begin(), parted_.end(), [&](const Parted& p) { return p.loop == &loop; });
      if (parted == parted_.end()) {
        digits.push_back(loop);
        continue;
      }
      std::sort(parted->starts.begin(), parted->starts.end());
      int64_t from = 1;
      for (size_t i = 0; i <= parted->starts.size(); ++i) {
        const int64_t to = i < parted->starts.size() ? parted->starts[i] : loop.extent;
        if (to % from != 0) return false;
        const Var var = make_var("digit");
        digits.push_back({var.get(), 0, to / from});
        parted->digits.push_back({var, from});
        from = to;
      }
    }
    return true;
  }

  Expr rewritten(const Expr& e) const {
    if (e.kind() == ExprKind::kVar) {
      const PlainLoop* loop = find_loop(loops_, e.get());
      return loop ? sum_of({loop, 1, 0}, e) : e;
    }
    if (const auto digits = digits_named(e, loops_)) return sum_of(*digits, e);
    if (const auto* n = e.as<BinaryNode>()) return binary(n->op, rewritten(n->a), rewritten(n->b));
    if (const auto* n = e.as<SelectNode>())
      return fettle::select(rewritten(n->condition), rewritten(n->if_true), rewritten(n->if_false));
    return e;
  }

 private:
  struct Digit {
    Var var;
    int64_t place;
  };
  struct Parted {
    const PlainLoop* loop = nullptr;
    SmallVector<int64_t, 6> starts;
    SmallVector<Digit, 6> digits;
  };

  Parted& of(const PlainLoop* loop) {
    for (Parted& p : parted_)
      if (p.loop == loop) return p;
    return parted_.emplace_back(Parted{loop, {}, {}});
  }
  Expr sum_of(const DigitRange& range, const Expr& otherwise) const {
    for (const Parted& p : parted_) {
      if (p.loop != range.loop) continue;
      Expr sum = 0;
      for (const Digit& d : p.digits)
        if (d.place >= range.from && (range.to == 0 || d.place < range.to))
          sum = sum + Expr(d.var) * (d.place / range.from);
      return sum;
    }
    return otherwise;
  }

  std::span<const PlainLoop> loops_;
  SmallVector<Parted, 4> parted_;
  bool found_ = false;
};

std::optional<PlainMap> map_of_loops(std::span<const Expr> bindings, std::span<const PlainLoop> loops,
                                     const Expr& predicate) {
  Reader reader(loops);
  for (const Expr& binding : bindings)
    if (!reader.read(binding)) return std::nullopt;
  reader.add_predicate(predicate);
  return reader.result();
}

}  // namespace

std::optional<UnfusedLoops> unfused_loops(std::span<const IterVar> iters, std::span<const PlainLoop> loops) {
  Digitizer digitizer(loops);
  for (const IterVar& iter : iters)
    if (!digitizer.note(iter.binding)) return std::nullopt;
  if (!digitizer.found()) return std::nullopt;
  std::optional<UnfusedLoops> made(std::in_place);
  if (!digitizer.split(made->loops)) return std::nullopt;
  made->iters.assign(iters.begin(), iters.end());
  for (IterVar& iter : made->iters) iter.binding = digitizer.rewritten(iter.binding);
  made->digits = digitizer.variables();
  return made;
}

std::optional<PlainMap> plain_map(std::span<const Expr> bindings, std::span<const PlainLoop> loops,
                                  const Expr& predicate) {
  Digitizer digitizer(loops);
  for (const Expr& binding : bindings)
    if (!digitizer.note(binding)) return std::nullopt;
  if (!digitizer.found()) return map_of_loops(bindings, loops, predicate);
  PlainLoops digits;
  if ((predicate && !digitizer.note(predicate)) || !digitizer.split(digits)) return std::nullopt;
  SmallVector<Expr, 6> rewritten;
  for (const Expr& binding : bindings) rewritten.push_back(digitizer.rewritten(binding));
  return map_of_loops({rewritten.data(), rewritten.size()}, digits,
                      predicate ? digitizer.rewritten(predicate) : predicate);
}

}  // namespace fettle
