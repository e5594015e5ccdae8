#include "graph/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "ir/expr.h"

namespace fettle {
namespace {

// As DimFactor, with what is known of it.
struct Factor {
  using Kind = DimFactor::Kind;
  Kind kind;
  std::string text;  // as an operand; equal factors have equal texts
  Dim a, b;          // operands of all but a symbol
  int64_t min, max, divisor, typical;
};
using FactorRef = std::shared_ptr<const Factor>;

struct Term {
  int64_t coefficient;
  std::vector<FactorRef> factors;  // sorted by text; never empty
};

bool same_factors(const Term& a, const Term& b) {
  return std::equal(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(),
                    [](const FactorRef& x, const FactorRef& y) { return x == y || x->text == y->text; });
}

struct Bounds {
  int64_t min, max;
};

}  // namespace

/// A sum of products and a number: never a number alone.
struct SizeForm {
  std::vector<Term> terms;  // sorted by their factors' texts, no two of the same factors, no coefficient 0
  int64_t constant = 0;
  int64_t min = 0, max = 0, divisor = 1, typical = 0;
  std::string text;

  static Dim make(std::vector<Term> terms, int64_t constant);
  static Dim make(FactorRef factor) { return make({{1, {std::move(factor)}}}, 0); }
  /// Of a number: no terms.
  static SizeForm of(const Dim& d) {
    if (d.form_) return *d.form_;
    SizeForm form;
    form.constant = d.value_;
    return form;
  }
  static const SizeForm* get(const Dim& d) { return d.form_.get(); }
};

namespace {

// More terms than this are not multiplied out.
constexpr size_t kMaxTerms = 24;
// Longer texts are abbreviated by their digest.
constexpr size_t kMaxText = 400;

int64_t saturate(__int128 value) {
  constexpr __int128 limit = kMaxDim;
  return static_cast<int64_t>(value > limit ? limit : value < -limit ? -limit : value);
}

Bounds product(Bounds a, Bounds b) {
  const int64_t corners[] = {saturate(__int128{a.min} * b.min), saturate(__int128{a.min} * b.max),
                             saturate(__int128{a.max} * b.min), saturate(__int128{a.max} * b.max)};
  const auto [low, high] = std::minmax_element(std::begin(corners), std::end(corners));
  return {*low, *high};
}

Bounds range_of(const Dim& d) { return {d.min(), d.max()}; }

std::string abbreviated(std::string text) {
  return text.size() <= kMaxText ? text : "size_" + digest_bytes(text).hex();
}

// Sums and quotients stand in parentheses.
std::string operand(const Dim& d) {
  std::string text = d.to_string();
  return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

std::string text_of(const Term& term) {
  std::string text;
  for (const FactorRef& factor : term.factors) text += (text.empty() ? "" : " * ") + factor->text;
  return text;
}

std::string text_of(const std::vector<Term>& terms, int64_t constant) {
  std::string text;
  const auto add = [&](int64_t coefficient, const std::string& product) {
    if (text.empty())
      text = coefficient < 0 ? "-" : "";
    else
      text += coefficient < 0 ? " - " : " + ";
    const int64_t magnitude = std::abs(coefficient);
    if (magnitude != 1 || product.empty()) text += std::to_string(magnitude) + (product.empty() ? "" : " * ");
    text += product;
  };
  // "5 - N", not "-N + 5".
  const bool number_first = constant > 0 && terms.front().coefficient < 0;
  if (number_first) add(constant, "");
  for (const Term& term : terms) add(term.coefficient, text_of(term));
  if (constant != 0 && !number_first) add(constant, "");
  // A quotient or the like that stands alone needs no parentheses.
  if (terms.size() == 1 && constant == 0 && terms[0].coefficient == 1 && terms[0].factors.size() == 1 &&
      text.starts_with('('))
    text = text.substr(1, text.size() - 2);
  return abbreviated(std::move(text));
}

FactorRef make_factor(Factor::Kind kind, std::string_view op, const Dim& a, const Dim& b, Bounds range,
                      int64_t divisor) {
  std::string text = abbreviated(fmt::format("({} {} {})", operand(a), op, operand(b)));
  const int64_t x = a.typical(), y = b.typical();
  const int64_t typical = kind == Factor::Kind::kFloorDiv ? (y == 0 ? 0 : floordiv_int(x, y))
                          : kind == Factor::Kind::kMax    ? std::max(x, y)
                          : kind == Factor::Kind::kMin    ? std::min(x, y)
                                                          : saturate(__int128{x} * y);
  return std::make_shared<const Factor>(Factor{kind, std::move(text), a, b, range.min, range.max, divisor, typical});
}

Dim combine(const Dim& a, const Dim& b, int64_t b_times) {
  SizeForm sum = SizeForm::of(a);
  for (Term term : SizeForm::of(b).terms) {
    term.coefficient = saturate(__int128{term.coefficient} * b_times);
    sum.terms.push_back(std::move(term));
  }
  const int64_t constant = saturate(sum.constant + __int128{SizeForm::of(b).constant} * b_times);
  return SizeForm::make(std::move(sum.terms), constant);
}

Dim rebuilt(const Factor& factor, const Dim& a, const Dim& b) {
  switch (factor.kind) {
    case Factor::Kind::kFloorDiv:
      return b == Dim(0) ? b : floordiv(a, b);  // no meaning
    case Factor::Kind::kMax:
      return max(a, b);
    case Factor::Kind::kMin:
      return min(a, b);
    case Factor::Kind::kProduct:
      return a * b;
    case Factor::Kind::kSymbol:
      break;
  }
  FETTLE_CHECK_MSG(false, "a symbol has no operands");
  return 0;
}

// term / divisor, where the divisor's factors are among the term's and its coefficient divides the term's.
std::optional<Term> quotient(const Term& term, const Term& divisor) {
  if (term.coefficient % divisor.coefficient != 0) return std::nullopt;
  Term rest{term.coefficient / divisor.coefficient, term.factors};
  for (const FactorRef& factor : divisor.factors) {
    const auto it = std::find_if(rest.factors.begin(), rest.factors.end(),
                                 [&](const FactorRef& f) { return f->text == factor->text; });
    if (it == rest.factors.end()) return std::nullopt;
    rest.factors.erase(it);
  }
  return rest;
}

// a // b, for a number b > 1 and an a that b does not divide as it stands.
Dim floordiv_by_number(const Dim& a, int64_t b) {
  const SizeForm form = SizeForm::of(a);
  // What b divides comes out: (4 * N + M + 5) // 4 = N + 1 + (M + 1) // 4.
  std::vector<Term> whole, rest;
  for (const Term& term : form.terms) {
    if (term.coefficient % b == 0)
      whole.push_back({term.coefficient / b, term.factors});
    else
      rest.push_back(term);
  }
  const int64_t above = floordiv_int(form.constant, b);
  int64_t left = form.constant - above * b;
  if (!whole.empty() || above != 0)
    return SizeForm::make(std::move(whole), above) + floordiv(SizeForm::make(std::move(rest), left), b);

  // A common divisor goes: (2 * N + 1) // 4 = N // 2.
  int64_t common = b;
  for (const Term& term : rest) common = std::gcd(common, term.coefficient);
  if (common > 1) {
    for (Term& term : rest) term.coefficient /= common;
    return floordiv(SizeForm::make(std::move(rest), left / common), b / common);
  }
  // A quotient of a quotient is one: (x // c + k) // b = (x + c * k) // (b * c).
  if (rest.size() == 1 && rest[0].coefficient == 1 && rest[0].factors.size() == 1) {
    const Factor& inner = *rest[0].factors[0];
    if (inner.kind == Factor::Kind::kFloorDiv && inner.b.is_number() && inner.b.value() > 0 &&
        inner.b.value() <= kMaxDim / b && left <= kMaxDim / inner.b.value())
      return floordiv(inner.a + left * inner.b.value(), inner.b.value() * b);
  }
  const Bounds range{floordiv_int(a.min(), b), floordiv_int(a.max(), b)};
  if (range.min == range.max) return range.min;
  const int64_t divisor = a.divisor() % b == 0 ? a.divisor() / b : 1;
  return SizeForm::make(make_factor(Factor::Kind::kFloorDiv, "//", a, b, range, divisor));
}

}  // namespace

Dim SizeForm::make(std::vector<Term> terms, int64_t constant) {
  // A multiple of an exact quotient by a number is a multiple of what it is of: 8 * (N // 8) = N where 8 divides N.
  for (size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].factors.size() != 1) continue;
    const Factor& factor = *terms[i].factors[0];
    if (factor.kind != Factor::Kind::kFloorDiv || !factor.b.is_number() || factor.a.divisor() % factor.b.value() != 0 ||
        terms[i].coefficient % factor.b.value() != 0)
      continue;
    const Dim whole = factor.a * (terms[i].coefficient / factor.b.value());
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
    return make(std::move(terms), constant) + whole;
  }

  std::vector<std::pair<std::string, Term>> sorted;
  for (Term& term : terms) sorted.emplace_back(text_of(term), std::move(term));
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  auto form = std::make_shared<SizeForm>();
  form->constant = constant;
  for (auto& [text, term] : sorted) {
    if (!form->terms.empty() && same_factors(form->terms.back(), term))
      form->terms.back().coefficient = saturate(__int128{form->terms.back().coefficient} + term.coefficient);
    else
      form->terms.push_back(std::move(term));
    if (form->terms.back().coefficient == 0) form->terms.pop_back();
  }
  if (form->terms.empty()) return constant;

  __int128 min = constant, max = constant, typical = constant;
  int64_t divisor = std::abs(constant);
  for (const Term& term : form->terms) {
    Bounds range{term.coefficient, term.coefficient};
    int64_t of_term = std::abs(term.coefficient), usual = term.coefficient;
    for (const FactorRef& factor : term.factors) {
      range = product(range, {factor->min, factor->max});
      of_term = saturate(__int128{of_term} * factor->divisor);
      usual = saturate(__int128{usual} * factor->typical);
    }
    // Beyond the limit a product's divisor is no longer exact.
    if (of_term >= kMaxDim) of_term = std::abs(term.coefficient);
    divisor = std::gcd(divisor, of_term);
    min += range.min;
    max += range.max;
    typical += usual;
  }
  form->min = saturate(min);
  form->max = saturate(max);
  form->divisor = divisor;
  form->typical = std::clamp(saturate(typical), form->min, form->max);
  if (form->min == form->max) return form->min;
  form->text = text_of(form->terms, constant);
  return Dim(std::move(form));
}

Dim Dim::symbol(std::string name, int64_t min, int64_t max, int64_t divisor, int64_t typical) {
  FETTLE_CHECK(!name.empty() && min <= max && divisor >= 1);
  constexpr int64_t kUsual = 64;
  typical = (typical > 0 ? typical : kUsual) / divisor * divisor;
  typical = std::clamp(std::max(typical, divisor), min, max);
  Factor factor{Factor::Kind::kSymbol, std::move(name), {}, {}, min, max, divisor, typical};
  return SizeForm::make(std::make_shared<const Factor>(std::move(factor)));
}

int64_t Dim::value() const {
  FETTLE_CHECK_MSG(is_number(), "the dim is " + to_string());
  return value_;
}

std::string_view Dim::symbol_name() const {
  if (!form_ || form_->terms.size() != 1 || form_->constant != 0) return {};
  const Term& term = form_->terms[0];
  const bool alone = term.coefficient == 1 && term.factors.size() == 1;
  return alone && term.factors[0]->kind == Factor::Kind::kSymbol ? std::string_view(term.factors[0]->text)
                                                                 : std::string_view();
}

int64_t Dim::min() const { return form_ ? form_->min : value_; }
int64_t Dim::max() const { return form_ ? form_->max : value_; }
int64_t Dim::divisor() const { return form_ ? form_->divisor : std::abs(value_); }
int64_t Dim::typical() const { return form_ ? form_->typical : value_; }
int64_t Dim::constant() const { return form_ ? form_->constant : value_; }

std::vector<DimTerm> Dim::terms() const {
  std::vector<DimTerm> terms;
  if (!form_) return terms;
  for (const Term& term : form_->terms) {
    terms.push_back({term.coefficient, {}});
    for (const FactorRef& factor : term.factors)
      terms.back().factors.push_back({factor->kind, SizeForm::make(factor), factor->a, factor->b});
  }
  return terms;
}
std::string Dim::to_string() const { return form_ ? form_->text : std::to_string(value_); }

void Dim::for_each_symbol(const std::function<void(const Dim& symbol)>& visit) const {
  if (!form_) return;
  if (!symbol_name().empty()) return visit(*this);
  for (const Term& term : form_->terms)
    for (const FactorRef& factor : term.factors) {
      if (factor->kind == Factor::Kind::kSymbol) {
        visit(SizeForm::make(factor));
      } else {
        factor->a.for_each_symbol(visit);
        factor->b.for_each_symbol(visit);
      }
    }
}

Dim Dim::substitute(const std::function<std::optional<Dim>(std::string_view name)>& replacement) const {
  if (!form_) return *this;
  Dim sum = form_->constant;
  for (const Term& term : form_->terms) {
    Dim product = term.coefficient;
    for (const FactorRef& factor : term.factors) {
      if (factor->kind == Factor::Kind::kSymbol)
        product = product * replacement(factor->text).value_or(SizeForm::make(factor));
      else
        product = product * rebuilt(*factor, factor->a.substitute(replacement), factor->b.substitute(replacement));
    }
    sum = sum + product;
  }
  return sum;
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_number() || b.is_number()) return a.is_number() && b.is_number() && a.value_ == b.value_;
  return a.form_ == b.form_ || a.form_->text == b.form_->text;
}

Dim sum(const std::vector<Dim>& dims) {
  __int128 constant = 0;
  std::vector<Term> terms;
  for (const Dim& dim : dims) {
    constant += dim.constant();
    if (const SizeForm* form = SizeForm::get(dim)) terms.insert(terms.end(), form->terms.begin(), form->terms.end());
  }
  return SizeForm::make(std::move(terms), saturate(constant));
}

Dim operator+(const Dim& a, const Dim& b) { return combine(a, b, 1); }

Dim operator-(const Dim& a, const Dim& b) { return combine(a, b, -1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_number() && b.is_number()) return saturate(__int128{a.value()} * b.value());
  if (b.is_number()) return combine(0, a, b.value());
  if (a.is_number()) return combine(0, b, a.value());
  const SizeForm x = SizeForm::of(a), y = SizeForm::of(b);
  if (x.terms.size() * y.terms.size() > kMaxTerms) {
    const bool ordered = x.text <= y.text;
    const int64_t divisor = saturate(__int128{x.divisor} * y.divisor);
    return SizeForm::make(make_factor(Factor::Kind::kProduct, "*", ordered ? a : b, ordered ? b : a,
                                      product(range_of(a), range_of(b)), divisor < kMaxDim ? divisor : 1));
  }
  Dim sum = combine(a * y.constant, b, x.constant) - Dim(saturate(__int128{x.constant} * y.constant));
  for (const Term& s : x.terms)
    for (const Term& t : y.terms) {
      Term term{saturate(__int128{s.coefficient} * t.coefficient), s.factors};
      term.factors.insert(term.factors.end(), t.factors.begin(), t.factors.end());
      std::sort(term.factors.begin(), term.factors.end(),
                [](const FactorRef& f, const FactorRef& g) { return f->text < g->text; });
      sum = sum + SizeForm::make({std::move(term)}, 0);
    }
  return sum;
}

Dim floordiv(const Dim& a, const Dim& b) {
  FETTLE_CHECK(!(b == Dim(0)));
  if (a.is_number() && b.is_number()) return floordiv_int(a.value(), b.value());
  if (a == Dim(0)) return 0;
  if (const std::optional<Dim> exact = exact_quotient(a, b)) return *exact;
  if (b.is_number() && b.value() > 0) return floordiv_by_number(a, b.value());
  if (b.min() == 0) return floordiv(a, max(b, 1));
  Bounds range{-kMaxDim, kMaxDim};
  if (b.min() > 0) {
    const int64_t corners[] = {floordiv_int(a.min(), b.min()), floordiv_int(a.min(), b.max()),
                               floordiv_int(a.max(), b.min()), floordiv_int(a.max(), b.max())};
    const auto [low, high] = std::minmax_element(std::begin(corners), std::end(corners));
    range = {*low, *high};
  }
  if (range.min == range.max) return range.min;
  return SizeForm::make(make_factor(Factor::Kind::kFloorDiv, "//", a, b, range, 1));
}

Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + (b - 1), b); }

namespace {

// The larger or the smaller of two that may be either.
Dim extreme(Factor::Kind kind, std::string_view name, const Dim& a, const Dim& b, Bounds bounds) {
  const bool ordered = a.to_string() <= b.to_string();
  return SizeForm::make(
      make_factor(kind, name, ordered ? a : b, ordered ? b : a, bounds, std::gcd(a.divisor(), b.divisor())));
}

}  // namespace

namespace {

/// Whether the dim is the larger (or the smaller) of `one` and something else.
bool is_extreme_of(const Dim& dim, DimFactor::Kind kind, const Dim& one) {
  if (dim.is_number() || dim.constant() != 0) return false;
  const std::vector<DimTerm> terms = dim.terms();
  if (terms.size() != 1 || terms[0].coefficient != 1 || terms[0].factors.size() != 1) return false;
  const DimFactor& factor = terms[0].factors[0];
  return factor.kind == kind && (factor.a == one || factor.b == one);
}

}  // namespace

Dim max(const Dim& a, const Dim& b) {
  if (is_extreme_of(b, DimFactor::Kind::kMin, a)) return a;
  if (is_extreme_of(a, DimFactor::Kind::kMin, b)) return b;
  const Dim difference = a - b;
  if (difference.min() >= 0) return a;
  if (difference.max() <= 0) return b;
  return extreme(Factor::Kind::kMax, "max", a, b, {std::max(a.min(), b.min()), std::max(a.max(), b.max())});
}

Dim min(const Dim& a, const Dim& b) {
  if (is_extreme_of(b, DimFactor::Kind::kMax, a)) return a;
  if (is_extreme_of(a, DimFactor::Kind::kMax, b)) return b;
  const Dim difference = a - b;
  if (difference.max() <= 0) return a;
  if (difference.min() >= 0) return b;
  return extreme(Factor::Kind::kMin, "min", a, b, {std::min(a.min(), b.min()), std::min(a.max(), b.max())});
}

namespace {

// By degree, then by factors: an order that products keep.
bool leads(const Term& a, const Term& b) {
  if (a.factors.size() != b.factors.size()) return a.factors.size() > b.factors.size();
  return std::ranges::lexicographical_compare(
      a.factors, b.factors, {}, [](const FactorRef& f) -> std::string_view { return f->text; },
      [](const FactorRef& f) -> std::string_view { return f->text; });
}

Term leading(const Dim& d) {
  const SizeForm form = SizeForm::of(d);
  if (form.terms.empty()) return {form.constant, {}};
  return *std::ranges::min_element(form.terms, leads);
}

}  // namespace

std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
  if (b == Dim(0)) return std::nullopt;
  if (b.is_number()) {  // term by term
    SizeForm form = SizeForm::of(a);
    if (form.constant % b.value() != 0) return std::nullopt;
    for (Term& term : form.terms) {
      if (term.coefficient % b.value() != 0) return std::nullopt;
      term.coefficient /= b.value();
    }
    return SizeForm::make(std::move(form.terms), form.constant / b.value());
  }
  const Term divisor = leading(b);
  Dim result, rest = a;
  for (size_t step = 0; step < kMaxTerms; ++step) {
    if (rest == Dim(0)) return result;
    const std::optional<Term> part = quotient(leading(rest), divisor);
    if (!part) break;
    const Dim product = part->factors.empty() ? Dim(part->coefficient) : SizeForm::make({*part}, 0);
    result = result + product;
    rest = rest - product * b;
  }
  return std::nullopt;
}

bool may_equal(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  if (difference.is_number()) return difference.value() == 0;
  if (difference.min() > 0 || difference.max() < 0) return false;
  // 2 * N == 3 has no solution.
  const SizeForm& form = *SizeForm::get(difference);
  int64_t divisor = 0;
  for (const Term& term : form.terms) divisor = std::gcd(divisor, term.coefficient);
  return form.constant % divisor == 0;
}

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_number(); });
}

std::optional<std::vector<int64_t>> static_shape(const Shape& shape) {
  if (!is_static(shape)) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Dim& d : shape) numbers.push_back(d.value());
  return numbers;
}

Dim element_count(const Shape& shape) {
  Dim product = 1;
  for (const Dim& d : shape) product = product * d;
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + shape[i].to_string();
  return text + "]";
}

}  // namespace fettle
