#include "schedule/reformulate/winograd_matrices.h"

#include <numeric>

#include <gtest/gtest.h>

namespace fettle {
namespace {

// Sum of fractions as one, over a common denominator.
Fraction sum(const std::vector<Fraction>& terms) {
  int64_t num = 0, den = 1;
  for (const Fraction& t : terms) {
    num = num * t.den + t.num * den;
    den *= t.den;
    const int64_t common = std::gcd(num, den);
    num /= common;
    den /= common;
  }
  return {num, den};
}

Fraction times(Fraction a, Fraction b, Fraction c) { return sum({{a.num * b.num * c.num, a.den * b.den * c.den}}); }

// The matrices define y[i] = sum over j, k of T[i][k][j] g[k] d[j]; a correlation has T[i][k][i + k] = 1 and else 0.
TEST(WinogradMatrices, AreACorrelationExactly) {
  for (int64_t r = 1; r <= 5; ++r)
    for (int64_t m = 1; m + r <= 11; ++m) {
      const auto w = winograd_matrices(m, r);
      ASSERT_TRUE(w) << m << " " << r;
      ASSERT_EQ(w->products, m + r - 1);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t k = 0; k < r; ++k)
          for (int64_t j = 0; j < w->products; ++j) {
            std::vector<Fraction> terms;
            for (size_t p = 0; p < static_cast<size_t>(w->products); ++p)
              terms.push_back(times(w->at[static_cast<size_t>(i)][p], w->g[p][static_cast<size_t>(k)],
                                    w->bt[p][static_cast<size_t>(j)]));
            EXPECT_EQ(sum(terms), (Fraction{j == i + k ? 1 : 0, 1})) << m << " " << r << ": " << i << k << j;
          }
    }
}

TEST(WinogradMatrices, AreThoseOfLavinAndGray) {
  const auto w = winograd_matrices(4, 3);
  ASSERT_TRUE(w);
  const FractionMatrix bt = {
      {{4, 1}, {0, 1}, {-5, 1}, {0, 1}, {1, 1}, {0, 1}},  {{0, 1}, {-4, 1}, {-4, 1}, {1, 1}, {1, 1}, {0, 1}},
      {{0, 1}, {4, 1}, {-4, 1}, {-1, 1}, {1, 1}, {0, 1}}, {{0, 1}, {-2, 1}, {-1, 1}, {2, 1}, {1, 1}, {0, 1}},
      {{0, 1}, {2, 1}, {-1, 1}, {-2, 1}, {1, 1}, {0, 1}}, {{0, 1}, {4, 1}, {0, 1}, {-5, 1}, {0, 1}, {1, 1}}};
  EXPECT_EQ(w->bt, bt);
  EXPECT_EQ(w->g[1], (std::vector<Fraction>{{-1, 6}, {-1, 6}, {-1, 6}}));
  EXPECT_EQ(w->g[3], (std::vector<Fraction>{{1, 24}, {1, 12}, {1, 6}}));
}

TEST(WinogradMatrices, LargerTilesAmplifyErrorsMore) {
  double before = 0;
  for (int64_t m : {1, 2, 4, 6}) {
    const double now = winograd_matrices(m, 3)->amplification();
    EXPECT_GT(now, before);
    before = now;
  }
}

TEST(WinogradMatrices, E202WithoutPoints) {
  EXPECT_FALSE(winograd_matrices(9, 3));
  EXPECT_FALSE(winograd_matrices(0, 3));
  EXPECT_EQ(winograd_matrices(4, 0).error().code, ErrorCode::E202);
}

}  // namespace
}  // namespace fettle
