#include "graph/dim.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"
#include "ir/expr.h"

namespace fettle {
namespace {

int64_t saturate(__int128 value) {
  constexpr __int128 limit = kMaxDim;
  return static_cast<int64_t>(value > limit ? limit : value < -limit ? -limit : value);
}

// An operand of a formula: sums and quotients stand in parentheses.
std::string operand(const Dim& d) {
  const std::string text = d.to_string();
  return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

Dim formula(const Dim& a, std::string_view op, const Dim& b, int64_t min, int64_t max) {
  if (min == max) return min;
  std::string name = fmt::format("{} {} {}", operand(a), op, operand(b));
  // Long formulas are known by their digest.
  if (name.size() > 400) name = "dim_" + digest_bytes(name).hex();
  return Dim::symbol(std::move(name), min, max);
}

}  // namespace

Dim Dim::symbol(std::string name, int64_t min, int64_t max) {
  FETTLE_CHECK(!name.empty() && min <= max);
  Dim d;
  d.name_ = std::move(name);
  d.min_ = min;
  d.max_ = max;
  return d;
}

int64_t Dim::value() const {
  FETTLE_CHECK_MSG(is_number(), "the dim is the symbol " + name_);
  return min_;
}

std::string Dim::to_string() const { return is_number() ? std::to_string(min_) : name_; }

// The symbol plus a number, the number joined with one that is there: (H + 2) + -3 → H - 1
Dim Dim::shifted(const Dim& symbol, int64_t by) {
  Dim d = symbol;
  d.min_ = saturate(__int128{symbol.min_} + by);
  d.max_ = saturate(__int128{symbol.max_} + by);
  if (d.min_ == d.max_) return d.min_;
  d.offset_ = saturate(__int128{symbol.offset_} + by);
  if (symbol.offset_ == 0) d.base_ = symbol.name_;
  d.name_ = d.base_;
  if (d.offset_ == 0) {
    d.base_.clear();
    return d;
  }
  const Dim base = Dim::symbol(d.base_, symbol.min_, symbol.max_);
  d.name_ = fmt::format("{} {} {}", operand(base), d.offset_ > 0 ? "+" : "-", std::abs(d.offset_));
  return d;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_number() && b.is_number()) return saturate(__int128{a.min()} + b.min());
  if (b.is_number()) return b.value() == 0 ? a : Dim::shifted(a, b.value());
  if (a.is_number()) return a.value() == 0 ? b : Dim::shifted(b, a.value());
  const bool ordered = a.name() <= b.name();
  return formula(ordered ? a : b, "+", ordered ? b : a, saturate(__int128{a.min()} + b.min()),
                 saturate(__int128{a.max()} + b.max()));
}

Dim operator-(const Dim& a, const Dim& b) {
  if (a == b) return 0;
  if (b.is_number()) return a + Dim(-b.value());
  return formula(a, "-", b, saturate(__int128{a.min()} - b.max()), saturate(__int128{a.max()} - b.min()));
}

Dim operator*(const Dim& a, const Dim& b) {
  const __int128 corners[] = {__int128{a.min()} * b.min(), __int128{a.min()} * b.max(), __int128{a.max()} * b.min(),
                              __int128{a.max()} * b.max()};
  const int64_t min = saturate(*std::min_element(std::begin(corners), std::end(corners)));
  const int64_t max = saturate(*std::max_element(std::begin(corners), std::end(corners)));
  if (a.is_number() && b.is_number()) return min;
  if (a == Dim(0) || b == Dim(0)) return 0;
  if (a == Dim(1)) return b;
  if (b == Dim(1)) return a;
  // The number first, then symbols by name: equal products get equal names.
  const bool ordered = a.is_number() || (!b.is_number() && a.name() <= b.name());
  return ordered ? formula(a, "*", b, min, max) : formula(b, "*", a, min, max);
}

Dim floordiv(const Dim& a, const Dim& b) {
  if (a.is_number() && b.is_number()) return floordiv_int(a.value(), b.value());
  if (b == Dim(1)) return a;
  if (a == b && a.min() > 0) return 1;
  if (b.min() <= 0) return formula(a, "//", b, -kMaxDim, kMaxDim);
  const int64_t corners[] = {floordiv_int(a.min(), b.min()), floordiv_int(a.min(), b.max()),
                             floordiv_int(a.max(), b.min()), floordiv_int(a.max(), b.max())};
  return formula(a, "//", b, *std::min_element(std::begin(corners), std::end(corners)),
                 *std::max_element(std::begin(corners), std::end(corners)));
}

Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + (b - 1), b); }

Dim max(const Dim& a, const Dim& b) {
  if (a.min() >= b.max()) return a;
  if (b.min() >= a.max()) return b;
  if (a == b) return a;
  return formula(a, "max", b, std::max(a.min(), b.min()), std::max(a.max(), b.max()));
}

Dim min(const Dim& a, const Dim& b) {
  if (a.max() <= b.min()) return a;
  if (b.max() <= a.min()) return b;
  if (a == b) return a;
  return formula(a, "min", b, std::min(a.min(), b.min()), std::min(a.max(), b.max()));
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
