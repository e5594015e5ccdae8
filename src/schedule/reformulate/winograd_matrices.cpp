#include "schedule/reformulate/winograd_matrices.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace fettle {
namespace {

Fraction reduced(int64_t num, int64_t den) {
  const int64_t common = std::gcd(num, den) * (den < 0 ? -1 : 1);
  return {num / common, den / common};
}
Fraction operator*(Fraction a, Fraction b) { return reduced(a.num * b.num, a.den * b.den); }
Fraction operator-(Fraction a, Fraction b) { return reduced(a.num * b.den - b.num * a.den, a.den * b.den); }
Fraction inverse(Fraction a) { return reduced(a.den, a.num); }

constexpr Fraction kPoints[] = {{0, 1}, {1, 1}, {-1, 1}, {2, 1}, {-2, 1}, {1, 2}, {-1, 2}, {3, 1}, {-3, 1}};

Fraction power(Fraction base, int64_t exponent) {
  Fraction result{1, 1};
  for (int64_t i = 0; i < exponent; ++i) result = result * base;
  return result;
}

// The coefficients of the product of (x - p) over all points but the one numbered `without`, lowest first.
std::vector<Fraction> product_of_roots(int64_t points, int64_t without) {
  std::vector<Fraction> c{{1, 1}};
  for (int64_t p = 0; p < points; ++p) {
    if (p == without) continue;
    std::vector<Fraction> next(c.size() + 1);
    for (size_t i = 0; i < next.size(); ++i)
      next[i] = (i > 0 ? c[i - 1] : Fraction{}) - (i < c.size() ? c[i] * kPoints[p] : Fraction{});
    c = std::move(next);
  }
  return c;
}

}  // namespace

Result<WinogradMatrices> winograd_matrices(int64_t outputs, int64_t taps) {
  const int64_t a = outputs + taps - 1, points = a - 1;
  if (outputs < 1 || taps < 1 || points > static_cast<int64_t>(std::size(kPoints)))
    return fail(ErrorCode::E202, fmt::format("there are no interpolation points for F({}, {})", outputs, taps));
  WinogradMatrices w{outputs, taps, a, {}, {}, {}};
  const auto last = static_cast<size_t>(points);
  w.at.assign(static_cast<size_t>(outputs), std::vector<Fraction>(static_cast<size_t>(a)));
  w.g.assign(static_cast<size_t>(a), std::vector<Fraction>(static_cast<size_t>(taps)));
  w.bt.assign(static_cast<size_t>(a), std::vector<Fraction>(static_cast<size_t>(a)));
  for (int64_t p = 0; p < points; ++p) {
    const auto row = static_cast<size_t>(p);
    Fraction scale{1, 1};
    for (int64_t q = 0; q < points; ++q)
      if (q != p) scale = scale * (kPoints[p] - kPoints[q]);
    // The one with a negative scale keeps its sign in G: so rows of p and -p differ in odd coefficients alone.
    for (int64_t i = 0; i < outputs; ++i) w.at[static_cast<size_t>(i)][row] = power(kPoints[p], i);
    for (int64_t k = 0; k < taps; ++k) w.g[row][static_cast<size_t>(k)] = power(kPoints[p], k) * inverse(scale);
    const std::vector<Fraction> c = product_of_roots(points, p);
    std::copy(c.begin(), c.end(), w.bt[row].begin());
  }
  w.at.back()[last] = {1, 1};
  w.g[last].back() = {1, 1};
  w.bt[last] = product_of_roots(points, -1);
  return w;
}

double WinogradMatrices::amplification() const {
  const auto sum = [](const std::vector<Fraction>& row) {
    double total = 0;
    for (const Fraction& f : row) total += std::abs(f.value());
    return total;
  };
  double largest = 0;
  for (const auto& row : at) {
    double total = 0;
    for (size_t p = 0; p < row.size(); ++p) total += std::abs(row[p].value()) * sum(g[p]) * sum(bt[p]);
    largest = std::max(largest, total);
  }
  return largest;
}

}  // namespace fettle
