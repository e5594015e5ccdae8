#include "arith/region.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace fettle {
namespace {

std::string text(const Range& r) { return to_text(r.min) + " + " + to_text(r.extent); }

std::optional<Range> range_of(const Expr& e, std::span<const VarDomain> domains, Analyzer& analyzer) {
  const auto ranges = ranges_of({{e, 1}}, domains, analyzer);
  return ranges ? std::optional(ranges->front()) : std::nullopt;
}

TEST(Region, HullOfAConvolutionRow) {
  Analyzer a;
  const Var i0 = make_var("i0"), i1 = make_var("i1"), kw = make_var("kw");
  a.bind(i0, 0, 7);
  const std::vector<VarDomain> domains{{i1, {0, 8}}, {kw, {0, 3}}};
  const auto r = range_of(Expr(i0) * 32 + Expr(i1) * 4 + kw - 1, domains, a);
  ASSERT_TRUE(r);
  EXPECT_EQ(text(*r), "i0 * 32 - 1 + 31");
  EXPECT_EQ(text(*range_of(floordiv(Expr(i0) * 32 + Expr(i1) * 4 + kw, 4), domains, a)), "i0 * 8 + 8");
  EXPECT_EQ(text(*range_of(floormod(i1, 4), domains, a)), "0 + 4");
  EXPECT_EQ(text(*range_of(Expr(5) - i1, domains, a)), "-2 + 8");
  EXPECT_EQ(text(*range_of(min(Expr(i0) * 8, 40) + i1, domains, a)), "min(i0 * 8, 40) + 8");
  EXPECT_FALSE(range_of(load(make_buffer("I", {8}, kI64), {i1}), domains, a));
}

TEST(Region, DomainsThatDependOnEachOther) {
  Analyzer a;
  const Var i = make_var("i"), j = make_var("j");
  const std::vector<VarDomain> domains{{i, {0, 4}}, {j, {i, 3}}};
  EXPECT_EQ(text(*range_of(Expr(j), domains, a)), "0 + 6");
}

TEST(Region, CoverClampDisjoint) {
  Analyzer a;
  const Var i = make_var("i");
  a.bind(i, 0, 4);
  const Range x{Expr(i) * 8, 8}, y{Expr(i) * 8 + 2, 4}, z{Expr(i) * 8 + 8, 2};
  EXPECT_TRUE(covers(x, y, a));
  EXPECT_FALSE(covers(y, x, a));
  EXPECT_TRUE(disjoint({x}, {z}, a));
  EXPECT_FALSE(disjoint({x}, {y}, a));
  EXPECT_EQ(text(clamp({Expr(i) * 8 - 1, 10}, 32, a)), "max(i * 8 - 1, 0) + min(i * 8 + 9, 32) - max(i * 8 - 1, 0)");
}

}  // namespace
}  // namespace fettle
