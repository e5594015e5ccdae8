#include "frontend/comprehension/ranges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/comprehension/lexer.h"

namespace fettle::comprehension {

Affine operator+(const Affine& a, const Affine& b) {
  Affine sum{a.constant + b.constant, a.terms};
  for (const auto& [name, coefficient] : b.terms) {
    Dim& mine = sum.terms.try_emplace(name, 0).first->second;
    mine = mine + coefficient;
    if (mine == Dim(0)) sum.terms.erase(name);
  }
  return sum;
}

Affine operator*(const Affine& a, const Dim& by) {
  Affine product{a.constant * by, {}};
  if (by == Dim(0)) return product;
  for (const auto& [name, coefficient] : a.terms) product.terms.emplace(name, coefficient * by);
  return product;
}

std::string to_string(const Affine& a) {
  std::string text;
  for (const auto& [name, coefficient] : a.terms) {
    if (!text.empty()) text += " + ";
    text += coefficient == Dim(1) ? name : fmt::format("{} * {}", coefficient.to_string(), name);
  }
  if (text.empty()) return a.constant.to_string();
  return a.constant == Dim(0) ? text : text + " + " + a.constant.to_string();
}

Form affine_form(Affine affine) {
  return std::make_shared<const IndexForm>(IndexForm{IndexForm::Kind::kAffine, std::move(affine)});
}

const IndexRange* Ranges::find(std::string_view name) const {
  const auto found = std::ranges::find_if(ranges_, [&](const auto& entry) { return entry.first == name; });
  return found == ranges_.end() ? nullptr : &found->second;
}

std::optional<Affine> Ranges::extreme(const Affine& a, bool greatest, size_t from) const {
  Affine rest = a;
  for (size_t k = ranges_.size(); k-- > from;) {
    const auto& [name, range] = ranges_[k];
    const auto found = rest.terms.find(name);
    if (found == rest.terms.end()) continue;
    const Dim coefficient = found->second;
    const bool rises = coefficient.min() >= 0;
    if (!rises && coefficient.max() > 0) return std::nullopt;
    rest.terms.erase(found);
    const Affine at = rises == greatest ? range.end - Affine{1} : range.begin;
    rest = rest + at * coefficient;
  }
  return rest;
}

std::optional<Ranges::Interval> Ranges::interval(const IndexForm& form) const {
  using Kind = IndexForm::Kind;
  if (form.kind == Kind::kData) return std::nullopt;
  if (form.kind == Kind::kAffine) {
    const std::optional<Affine> least = extreme(form.affine, false), most = extreme(form.affine, true);
    if (!least || !most || !least->is_constant() || !most->is_constant()) return std::nullopt;
    return Interval{least->constant, most->constant};
  }
  const std::optional<Interval> a = interval(*form.a), b = interval(*form.b);
  if (form.kind == Kind::kFloorMod) return b ? std::optional(Interval{0, b->most - 1}) : std::nullopt;
  // What is held between two bounds need not be known itself.
  if (form.kind == Kind::kMin && (a || b)) {
    if (a && b) return Interval{min(a->least, b->least), min(a->most, b->most)};
    return std::nullopt;
  }
  if (!a || !b) return std::nullopt;
  switch (form.kind) {
    case Kind::kFloorDiv:
      return Interval{floordiv(a->least, b->least), floordiv(a->most, b->least)};
    case Kind::kMax:
      return Interval{max(a->least, b->least), max(a->most, b->most)};
    case Kind::kProduct:
      if (a->least.min() < 0 || b->least.min() < 0) return std::nullopt;
      return Interval{a->least * b->least, a->most * b->most};
    case Kind::kEither:
      return Interval{min(a->least, b->least), max(a->most, b->most)};
    default:
      return Interval{a->least + b->least, a->most + b->most};
  }
}

namespace {

// The ranges of `name` in which 0 <= index < extent: index = coefficient * name + rest, the rest's variables known.
std::optional<IndexRange> solve(const Constraint& constraint, const std::string& name, const Ranges& known) {
  Affine rest = constraint.index->affine;
  const Dim coefficient = rest.terms.at(name);
  rest.terms.erase(name);
  // Where a coefficient may be 0 or of either sign, there is no single largest range.
  const bool rises = coefficient.min() >= 1;
  if (!rises && coefficient.max() > -1) return std::nullopt;
  const std::optional<Affine> least = known.extreme(rest, false), most = known.extreme(rest, true);
  if (!least || !most || !least->is_constant() || !most->is_constant()) return std::nullopt;
  const Dim step = rises ? coefficient : Dim(0) - coefficient;
  const Dim room = constraint.extent - 1;
  // rises: ceil(-least / step) <= name <= floor((room - most) / step); falls: the same of -name.
  if (rises) return IndexRange{{ceildiv(0 - least->constant, step)}, {floordiv(room - most->constant, step) + 1}};
  return IndexRange{{0 - floordiv(room - most->constant, step)}, {floordiv(least->constant, step) + 1}};
}

}  // namespace

Result<> infer_ranges(const std::vector<std::string>& unknown, std::vector<Constraint>& constraints, Ranges& ranges,
                      Place place) {
  std::vector<std::string> open;
  for (const std::string& name : unknown)
    if (!ranges.find(name)) open.push_back(name);
  while (!open.empty()) {
    std::vector<std::pair<std::string, IndexRange>> solved;
    for (const std::string& name : open) {
      std::optional<IndexRange> range;
      for (Constraint& constraint : constraints) {
        if (constraint.index->kind != IndexForm::Kind::kAffine) continue;
        const auto& terms = constraint.index->affine.terms;
        const bool is_alone = terms.contains(name) && std::ranges::none_of(terms, [&](const auto& term) {
                                return term.first != name && !ranges.find(term.first);
                              });
        if (!is_alone) continue;
        const std::optional<IndexRange> found = solve(constraint, name, ranges);
        if (!found) continue;
        constraint.holds = true;
        if (!range)
          range = found;
        else
          range = IndexRange{{max(range->begin.constant, found->begin.constant)},
                             {min(range->end.constant, found->end.constant)}};
      }
      if (range) solved.emplace_back(name, *range);
    }
    if (solved.empty()) {
      std::string seen;
      for (const Constraint& constraint : constraints) {
        if (constraint.index->kind != IndexForm::Kind::kAffine) continue;
        const bool is_open = std::ranges::any_of(constraint.index->affine.terms, [&](const auto& term) {
          return std::ranges::find(open, term.first) != open.end();
        });
        if (!is_open) continue;
        seen +=
            fmt::format("{}{} is {}", seen.empty() ? "; " : ", ", constraint.text, to_string(constraint.index->affine));
      }
      return fail(ErrorCode::E613,
                  fmt::format("nothing tells the range of {}{}", fmt::join(open, ", "),
                              seen.empty() ? "" : seen + ": no index of these stands alone"),
                  to_string(place));
    }
    // What a round tells counts from the next one on, so that the order of the variables means nothing.
    for (auto& [name, range] : solved) {
      std::erase(open, name);
      ranges.add(name, std::move(range));
    }
  }
  return {};
}

}  // namespace fettle::comprehension
