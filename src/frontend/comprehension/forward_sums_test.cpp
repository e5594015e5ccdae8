#include "frontend/comprehension/forward_sums.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/testing.h"
#include "frontend/comprehension/parser.h"
#include "frontend/comprehension/testing.h"

namespace fettle {
namespace {

using comprehension::StatementTree;

// The statements of the loop of a function.
std::vector<StatementTree> loop_of(const std::string& statements) {
  const auto functions = comprehension::parse("def f(float(N) x, float(N) d, float(N,N) A) -> (x) { for i in 0:N { " +
                                              statements + " } }");
  EXPECT_TRUE(functions.has_value()) << statements;
  return functions ? functions->front().statements.front().body : std::vector<StatementTree>{};
}

// What becomes of the loop's two statements: one letter each, "u" for one that updates and "s" for one that sets.
std::string shape(const std::string& statements) {
  const auto loop = loop_of(statements);
  const auto made = comprehension::forwarded(loop.at(0), loop.at(1));
  if (!made) return "none";
  std::string result;
  for (const StatementTree& s : *made) {
    EXPECT_EQ(s.name, "x");
    result += s.assignment == comprehension::Assignment::kAdd ? "u" : "s";
  }
  return result;
}

TEST(ForwardSums, GoToTheirPlaces) {
  const std::string sum = "t +=! A(i, k) * d(k) where k in 0:i\n";
  EXPECT_EQ(shape(sum + "x(i) = x(i) + t"), "u");
  EXPECT_EQ(shape(sum + "x(i) = x(i) - t"), "u");
  EXPECT_EQ(shape(sum + "x(i) = (x(i) - t) / d(i)"), "us");
  EXPECT_EQ(shape(sum + "x(i) = d(i) - 2.0 * t"), "su");
  EXPECT_EQ(shape(sum + "x(i) = 3.0 * x(i) + A(i, i) + d(i) * t"), "su");
  EXPECT_EQ(shape(sum + "x(i) = (d(i) - t) / A(i, i)"), "sus");
  // Twice, not in a sum, of what changes with the place, or divided by the place itself.
  EXPECT_EQ(shape(sum + "x(i) = x(i) + t * t"), "none");
  EXPECT_EQ(shape(sum + "x(i) = t"), "none");
  EXPECT_EQ(shape(sum + "x(i) = d(i) + x(i) * t"), "none");
  EXPECT_EQ(shape(sum + "x(i) = (d(i) + t) / x(i)"), "none");
  EXPECT_EQ(shape(sum + "x(i) = d(i) / t"), "none");
  EXPECT_EQ(shape("t max=! A(i, k) where k in 0:i\nx(i) = x(i) + t"), "none");
}

TEST(ForwardSums, AreReadNowhereElse) {
  const auto once = comprehension::parse(
      "def f(float(N) x, float(N) y) -> (x, y) { for i in 0:N {\n t +=! x(k) where k in 0:i\n x(i) = y(i) - t } }");
  ASSERT_TRUE(once.has_value());
  EXPECT_TRUE(comprehension::is_read_after_sums(once->front().statements.front(), "t"));
  const auto twice = comprehension::parse(
      "def f(float(N) x, float(N) y) -> (x, y) { for i in 0:N {\n t +=! x(k) where k in 0:i\n x(i) = y(i) - t\n"
      " y(i) = t } }");
  ASSERT_TRUE(twice.has_value());
  EXPECT_FALSE(comprehension::is_read_after_sums(twice->front().statements.front(), "t"));
}

// Whatever the scalar is: the same numbers, also where terms read the place, or the scalar is read again.
TEST(ForwardSums, ChangeNoResult) {
  const int n = 6;
  Table a = some({n, n}, kF64), x = some({n}, kF64), y = some({n}, kF64, -3, 3);
  for (const bool reads_place : {false, true})
    for (const bool is_read_again : {false, true}) {
      Table made = x, other = y;
      for (int i = 0; i < n; ++i) {
        double t = 0;
        for (int k = 0; k < (reads_place ? n : i); ++k) t += a(i, k) * made(k);
        made(i) = (other(i) - 0.5 * t) / 2;
        if (is_read_again) other(i) = t;
      }
      const std::string text =
          std::string("def f(double(N,N) A, double(N) x, double(N) y) -> (x, y) {\n for i in 0:N {\n") +
          "  t +=! A(i, k) * x(k) where k in 0:" + (reads_place ? "N" : "i") + "\n  x(i) = (y(i) - 0.5 * t) / 2.0\n" +
          (is_read_again ? "  y(i) = t\n" : "  y(i) = y(i)\n") + " } }";
      expect_makes(text, {{"A", a}, {"x", x}, {"y", y}}, {{"x", made}, {"y", other}}, 1e-12);
    }
}

}  // namespace
}  // namespace fettle
