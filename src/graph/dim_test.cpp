#include "graph/dim.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace fettle {
namespace {

const Dim h = Dim::symbol("H", 1, 100), w = Dim::symbol("W"), n = Dim::symbol("N", 0, kMaxDim, 8);

// The dim's number for these sizes.
int64_t at(const Dim& d, const std::map<std::string, int64_t, std::less<>>& sizes) {
  return d.substitute([&](std::string_view name) { return std::optional<Dim>(sizes.find(name)->second); }).value();
}

TEST(Dim, Numbers) {
  EXPECT_EQ(floordiv(Dim(7), Dim(2)), Dim(3));
  EXPECT_EQ(floordiv(Dim(-7), Dim(2)), Dim(-4));
  EXPECT_EQ(ceildiv(Dim(7), Dim(2)), Dim(4));
  EXPECT_EQ((Dim(kMaxDim) * Dim(kMaxDim)).value(), kMaxDim);  // saturates
}

TEST(Dim, EqualPolynomialsAreEqual) {
  EXPECT_EQ(h + 2 - 3 + 1, h);
  EXPECT_EQ(h * 3, Dim(3) * h);
  EXPECT_EQ(h * w, w * h);
  EXPECT_EQ(h + w, w + h);
  EXPECT_EQ((h + 1) * (w - 1), h * w - h + w - 1);
  EXPECT_EQ((h + w) - w, h);
  EXPECT_EQ(h - h, Dim(0));
  EXPECT_FALSE(h == w);
  EXPECT_FALSE(h == Dim(1));
}

TEST(Dim, QuotientsAreSimplified) {
  EXPECT_EQ(floordiv(h * 2 + 1, 2), h);
  EXPECT_EQ(floordiv(h * w * 6, w * 2), h * 3);
  EXPECT_EQ(floordiv(h * 4 + 6, 8), floordiv(h * 2 + 3, 4));
  EXPECT_EQ(ceildiv(ceildiv(h, 2), 2), ceildiv(h, 4));
  EXPECT_EQ(floordiv(n, 8) * 8, n);  // 8 divides N
  EXPECT_EQ(floordiv(h, 101), Dim(0));
  EXPECT_EQ(floordiv(h, 0 + h), Dim(1));
}

TEST(Dim, ExactQuotients) {
  EXPECT_EQ(exact_quotient(h * w * 6, w * 2), h * 3);
  EXPECT_EQ(exact_quotient((h + w) * (n + 1), h + w), n + 1);
  EXPECT_EQ(exact_quotient(h * h - w * w, h - w), h + w);
  EXPECT_EQ(exact_quotient(Dim(0), h), Dim(0));
  EXPECT_FALSE(exact_quotient(h + 1, h));
  EXPECT_FALSE(exact_quotient(h, Dim(2)));
  EXPECT_EQ(exact_quotient(h * 6 + w * 4 - 2, Dim(-2)), h * -3 - w * 2 + 1);
  EXPECT_FALSE(exact_quotient(h * 6 + w * 4 - 1, Dim(2)));
  EXPECT_FALSE(exact_quotient(h, Dim(0)));
}

TEST(Dim, TypicalSizes) {
  const Dim t = Dim::symbol("T", 0, 100, 8, 50);
  EXPECT_EQ(t.typical(), 48);
  EXPECT_EQ((t * 2 + 1).typical(), 97);
  EXPECT_EQ(floordiv(t + 1, 2).typical(), 24);
  EXPECT_EQ(Dim(5).typical(), 5);
  EXPECT_EQ(Dim::symbol("U", 10, 20).typical(), 20);
}

TEST(Dim, Text) {
  EXPECT_EQ((h + 1).to_string(), "H + 1");
  EXPECT_EQ((Dim(5) - h * 2).to_string(), "5 - 2 * H");
  EXPECT_EQ(floordiv(h + 1, 2).to_string(), "(H + 1) // 2");
  EXPECT_EQ((floordiv(h + 1, 2) * 3 + 1).to_string(), "3 * ((H + 1) // 2) + 1");
  EXPECT_EQ(max(h, w).to_string(), "H max W");
  EXPECT_EQ(h.symbol_name(), "H");
  EXPECT_EQ((h + 1).symbol_name(), "");
  EXPECT_EQ((h * h).symbol_name(), "");
}

TEST(Dim, RangesAndDivisors) {
  EXPECT_EQ(floordiv(h + 1, 2).max(), 50);
  EXPECT_EQ((h * 2 - 1).min(), 1);
  EXPECT_EQ(max(h, 0), h);
  EXPECT_EQ(min(h, 100), h);
  EXPECT_EQ(max(h + 1, h), h + 1);
  EXPECT_EQ(n.divisor(), 8);
  EXPECT_EQ((n * 3 + 4).divisor(), 4);
  EXPECT_EQ((n * n).divisor(), 64);
  EXPECT_EQ(floordiv(n, 4).divisor(), 2);
}

TEST(Dim, MayBeEqual) {
  EXPECT_TRUE(may_equal(h, 7));
  EXPECT_FALSE(may_equal(h, 101));
  EXPECT_FALSE(may_equal(h, h + 1));
  EXPECT_FALSE(may_equal(h * 2, 7));
  EXPECT_TRUE(may_equal(h, w));
}

TEST(Dim, ManyTermsAndLongTextsStayBounded) {
  Dim product = 1;
  for (int i = 0; i < 12; ++i) product = product * (Dim::symbol("some_size_" + std::to_string(i), 1, 2) + 1);
  EXPECT_LE(product.to_string().size(), 400u);
  Dim chain = h;
  for (int i = 0; i < 1000; ++i) chain = floordiv(chain * w + chain, 3);
  EXPECT_LE(chain.to_string().size(), 400u);
}

// Random expressions against numbers: what simplifications do holds for all sizes, and ranges and divisors are true.
TEST(Dim, ComputesWhatItsOperationsSay) {
  std::mt19937 random(7);
  const auto below = [&](int limit) { return static_cast<int64_t>(random() % static_cast<unsigned>(limit)); };
  for (int trial = 0; trial < 3000; ++trial) {
    const std::map<std::string, int64_t, std::less<>> sizes = {
        {"H", 1 + below(100)}, {"W", below(1000)}, {"N", 8 * below(50)}};
    std::vector<std::pair<Dim, int64_t>> known = {
        {h, sizes.at("H")}, {w, sizes.at("W")}, {n, sizes.at("N")}, {2, 2}, {8, 8}, {-3, -3}};
    for (int step = 0; step < 6; ++step) {
      const auto& [a, x] = known[static_cast<size_t>(below(static_cast<int>(known.size())))];
      const auto& [b, y] = known[static_cast<size_t>(below(static_cast<int>(known.size())))];
      if (std::abs(x) > 10000 || std::abs(y) > 10000) continue;
      std::pair<Dim, int64_t> made;
      switch (below(6)) {
        case 0:
          made = {a + b, x + y};
          break;
        case 1:
          made = {a - b, x - y};
          break;
        case 2:
          made = {a * b, x * y};
          break;
        case 3:
          if (y <= 0) continue;
          made = {floordiv(a, b), x >= 0 ? x / y : -((-x + y - 1) / y)};
          break;
        case 4:
          made = {max(a, b), std::max(x, y)};
          break;
        default:
          made = {min(a, b), std::min(x, y)};
          break;
      }
      known.push_back(made);
      const auto& [d, value] = known.back();
      ASSERT_EQ(at(d, sizes), value) << d.to_string();
      ASSERT_LE(d.min(), value) << d.to_string();
      ASSERT_GE(d.max(), value) << d.to_string();
      if (d.divisor() != 0) {
        ASSERT_EQ(value % d.divisor(), 0) << d.to_string();
      }
    }
  }
}

TEST(Dim, AnExtremeOfAnExtremeMayBeOneOfThem) {
  const Dim n = Dim::symbol("N") - 1;
  EXPECT_EQ(min(max(n, 0), n), n);
  EXPECT_EQ(min(n, max(0, n)), n);
  EXPECT_EQ(max(min(n, 5), n), n);
  EXPECT_FALSE(min(max(n, 0), 3) == n);
}

}  // namespace
}  // namespace fettle
