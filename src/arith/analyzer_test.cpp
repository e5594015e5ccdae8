#include "arith/analyzer.h"

#include <gtest/gtest.h>

#include <functional>

#include "arith/test_util.h"
#include "base/random.h"
#include "ir/text.h"
#include "ir/visit.h"

namespace fettle {
namespace {

struct Loops : ::testing::Test {
  Analyzer a;
  std::map<std::string, Var> vars;

  Var loop(const std::string& name, const Expr& extent) {
    const Var var = make_var(name);
    a.bind(var, 0, extent);
    vars[name] = var;
    return var;
  }
  std::string simplified(const Expr& e) { return to_text(a.simplify(e)); }
};

TEST_F(Loops, SumsAreCanonical) {
  const Var i = loop("i", 10), j = loop("j", 10);
  EXPECT_EQ(simplified(Expr(j) + Expr(i) * 4 + 3 - j + i), "i * 5 + 3");
  EXPECT_EQ(simplified(Expr(j) * 2 + Expr(i) * 16 - 1), "i * 16 + j * 2 - 1");
  EXPECT_TRUE(structural_equal(a.simplify(Expr(i) + j), a.simplify(Expr(j) + i)));
  EXPECT_TRUE(is_zero(a.simplify((Expr(i) + j) * 3 - Expr(i) * 3 - Expr(j) * 3)));
  const Expr same = Expr(i) * 16 + j;
  EXPECT_EQ(a.simplify(same), same);
}

TEST_F(Loops, ComparisonsLoseTheirDivisions) {
  const Var a0 = loop("a", 44), b = loop("b", 16);
  const Expr x = Expr(a0) * 16 + b;
  EXPECT_EQ(simplified(le(3, floordiv(x, 3))), "9 <= a * 16 + b");
  EXPECT_EQ(simplified(lt(floordiv(x, 3), 227)), "a * 16 + b < 681");
}

TEST_F(Loops, DivisionUnderBounds) {
  const Var x = loop("x", 50), y = loop("y", 6), i = loop("i", 8), j = loop("j", 16), r = loop("r", 9);
  EXPECT_EQ(a.simplify(floordiv(Expr(x) * 6 + y, 6)), Expr(x));
  EXPECT_EQ(a.simplify(floormod(Expr(x) * 6 + y, 6)), Expr(y));
  EXPECT_EQ(a.simplify(floordiv(Expr(i) * 16 + j, 16)), Expr(i));
  EXPECT_EQ(a.simplify(floordiv(Expr(r), 3) * 3 + floormod(Expr(r), 3)), Expr(r));
  EXPECT_EQ(simplified(floordiv(Expr(x) * 6 + y, 12)), to_text(floordiv(x, 2)));
  EXPECT_EQ(simplified(floormod(Expr(x) * 6 + y, 12)), to_text(floormod(x, 2) * 6 + y));
  EXPECT_EQ(simplified(floordiv(floordiv(x, 3), 4)), to_text(floordiv(x, 12)));
  EXPECT_EQ(simplified(floordiv(floormod(x, 12), 3)), to_text(floormod(floordiv(x, 3), 4)));
  EXPECT_EQ(simplified(floormod(floormod(x, 12), 3)), to_text(floormod(x, 3)));
  EXPECT_EQ(a.simplify(floordiv(x, 12) * 12 + floormod(floordiv(x, 3), 4) * 3 + floormod(x, 3)), Expr(x));
  EXPECT_EQ(a.simplify(floordiv(x, 100)).as<IntImmNode>()->value, 0);
  EXPECT_EQ(simplified(floordiv(Expr(x) - 1, 4) + 1), to_text(floordiv(Expr(x) + 3, 4)));
}

// Tiles of 12 of a triangle: i runs from 12 t to a row of the tile.
TEST_F(Loops, DivisionWithinATile) {
  const Var t = loop("t", 9), r = loop("r", 12), i = make_var("i");
  a.bind(i, Expr(t) * 12, Expr(r) + 1);
  EXPECT_EQ(a.simplify(floordiv(i, 12)), Expr(t));
  EXPECT_EQ(simplified(floormod(Expr(i) + 24, 12)), "i - t * 12");
  EXPECT_EQ(simplified(floordiv(i, 8)), to_text(floordiv(i, 8)));
  const Var j = make_var("j");
  a.bind(j, Expr(t) * 12, Expr(r) + 2);
  EXPECT_EQ(simplified(floordiv(j, 12)), to_text(floordiv(j, 12)));
}

TEST_F(Loops, KernelAndChannelSplit) {
  const Var kw = loop("kw", 7), c = loop("c", 3);
  const Expr flat = Expr(kw) * 3 + c;
  EXPECT_EQ(a.simplify(floordiv(flat, 3)), Expr(kw));
  EXPECT_EQ(a.simplify(floormod(flat, 3)), Expr(c));
  EXPECT_EQ(a.int_bounds(flat), (Interval{0, 20}));
}

TEST_F(Loops, MinMaxSelectCompare) {
  const Var i = loop("i", 10), j = loop("j", 5);
  EXPECT_EQ(a.simplify(min(Expr(i), 20)), Expr(i));
  EXPECT_EQ(simplified(max(Expr(i) + 5, j)), "i + 5");
  EXPECT_EQ(simplified(min(min(Expr(i), 7), 3)), to_text(min(Expr(i), 3)));
  EXPECT_EQ(simplified(select(lt(i, 10), Expr(i), Expr(0))), "i");
  EXPECT_TRUE(is_true(a.simplify(logical_and(lt(i, 10), le(0, j)))));
  EXPECT_TRUE(is_zero(a.simplify(lt(Expr(i) + 5, j))));
  EXPECT_EQ(simplified(lt(Expr(i) * 16 + j, 128)), to_text(lt(i, 8)));
  EXPECT_EQ(simplified(logical_and(lt(i, 7), lt(i, 4))), to_text(lt(i, 4)));
  EXPECT_TRUE(is_zero(a.simplify(eq(Expr(i) * 4 + 1, Expr(j) * 2))));
  EXPECT_EQ(simplified(select(lt(i, 4), select(lt(i, 6), Expr(i), Expr(j)), Expr(j))),
            to_text(select(lt(i, 4), Expr(i), Expr(j))));
}

TEST_F(Loops, FloatsAroundIndices) {
  const Var i = loop("i", 10);
  const Buffer b = make_buffer("B", {100});
  const Expr value = select(logical_and(le(0, i), lt(i, 10)), load(b, {floordiv(Expr(i) * 8, 4)}), float_imm(0));
  const Expr simple = a.simplify(value);
  ASSERT_NE(simple.as<LoadNode>(), nullptr);
  EXPECT_EQ(to_text(simple.as<LoadNode>()->indices[0]), "i * 2");
}

TEST_F(Loops, SymbolicExtents) {
  const Var n = make_var("n"), m = make_var("m");
  a.bind_range(n, {1, 4096}, make_modular(16, 0));
  a.bind_range(m, {1, 4096});
  const Var i = loop("i", m), j = loop("j", n);
  EXPECT_TRUE(a.can_prove(lt(i, m)));
  EXPECT_FALSE(a.can_prove(lt(i, n)));
  EXPECT_TRUE(a.can_prove(lt(Expr(i) * n + j, Expr(m) * n)));
  EXPECT_EQ(a.simplify(floordiv(Expr(i) * n + j, n)), Expr(i));
  EXPECT_EQ(a.simplify(floormod(Expr(i) * n + j, n)), Expr(j));
  EXPECT_EQ(a.simplify(floordiv(n, 16) * 16), Expr(n));
  EXPECT_TRUE(a.can_prove(le(m, floordiv(Expr(m) + 15, 16) * 16)));
  EXPECT_FALSE(a.can_prove(le(m, floordiv(m, 16) * 16)));
  EXPECT_EQ(a.simplify(floordiv(i, m) * m + floormod(i, m)), Expr(i));
  const Var o = loop("o", floordiv(Expr(m) + 15, 16));
  const Var in = make_var("in");
  a.bind(in, 0, min(16, Expr(m) - Expr(o) * 16));
  EXPECT_TRUE(a.can_prove(lt(Expr(o) * 16 + in, m)));
}

// Products of large sizes: nothing is told by what is beyond the integers.
TEST_F(Loops, ProductsOfSizesWithoutEnd) {
  const Var p = make_var("p"), sizes[] = {make_var("n0"), make_var("n1"), make_var("n2")};
  for (const Var& n : sizes) a.bind_range(n, {0, int64_t{1} << 40}, make_modular(1, 0));
  const Expr all = Expr(sizes[0]) * Expr(sizes[1]) * Expr(sizes[2]);
  const auto scope = a.assume(le(0, Expr(p)));
  EXPECT_FALSE(a.can_prove(le(all, Expr(p))));
  EXPECT_FALSE(a.can_prove(lt(Expr(p), all)));
  EXPECT_EQ(to_text(a.simplify(lt(Expr(p), all))), "p < n0 * n1 * n2");
}

TEST_F(Loops, TailsOfSplit) {
  // guard
  const Var i0 = loop("i0", 4), i1 = loop("i1", 32);
  {
    const auto scope = a.assume(lt(Expr(i0) * 32 + i1, 100));
    EXPECT_TRUE(a.can_prove(lt(Expr(i0) * 32 + i1, 100)));
    EXPECT_EQ(a.int_bounds(Expr(i0) * 32 + i1), (Interval{0, 99}));
  }
  EXPECT_FALSE(a.can_prove(lt(Expr(i0) * 32 + i1, 100)));
  // balance: 197 = 15 tiles, 2 of 14 and 13 of 13
  const Var b0 = loop("b0", 15), b1 = loop("b1", 14);
  const Expr balanced = Expr(b0) * 13 + min(Expr(b0), 2) + b1;
  EXPECT_FALSE(a.can_prove(lt(balanced, 197)));
  {
    const auto scope = a.assume(lt(b1, 13 + select(lt(b0, 2), Expr(1), Expr(0))));
    EXPECT_TRUE(a.can_prove(lt(balanced, 197)));
    EXPECT_FALSE(a.can_prove(lt(balanced, 196)));
    EXPECT_TRUE(a.can_prove(le(0, balanced)));
  }
  // shift
  const Expr shifted = min(Expr(i0) * 32, 68) + i1;
  EXPECT_TRUE(a.can_prove(lt(shifted, 100)));
  EXPECT_FALSE(a.can_prove(lt(shifted, 99)));
}

// Without an end to its work, each step combines sums of all sizes with as many assumptions: minutes a proof.
TEST_F(Loops, ManyAssumptionsOverManySizes) {
  const auto scope = a.enter();
  const Var all = loop("n", 1 << 20);
  Expr before = 0;
  std::vector<Expr> sums;
  for (int i = 0; i < 64; ++i) {
    before = before + Expr(loop("s" + std::to_string(i), Expr(int64_t{1} << 30)));
    sums.push_back(before);
    a.add_assumption(le(before, Expr(all) + i));
  }
  EXPECT_TRUE(a.can_prove(le(sums[0], Expr(all) + 5)));
  for (size_t i = 0; i + 2 < sums.size(); ++i) EXPECT_FALSE(a.can_prove(le(sums[i + 2] * 2, sums[i] * 3 + 7))) << i;
}

TEST_F(Loops, ScopesEnd) {
  const Var i = loop("i", 10);
  {
    const auto scope = a.assume(lt(i, 5));
    EXPECT_EQ(a.int_bounds(i).max, 4);
    const auto inner = a.enter();
    const Var j = make_var("j");
    a.bind(j, Expr(i) + 1);
    EXPECT_EQ(a.int_bounds(j), (Interval{1, 5}));
  }
  EXPECT_EQ(a.int_bounds(i).max, 9);
}

// --- random expressions, every point of a small domain ----------------------------------------------------------

class RandomExprs {
 public:
  RandomExprs(uint64_t seed, std::vector<Var> vars) : random_({7, seed}), vars_(std::move(vars)) {}

  int64_t constant() { return static_cast<int64_t>(random_.below(14)) - 3; }
  Expr index(int depth) {
    if (depth == 0 || random_.below(6) == 0)
      return random_.below(4) == 0 ? Expr(constant()) : Expr(vars_[random_.below(vars_.size())]);
    switch (random_.below(10)) {
      case 0:
      case 1:
        return index(depth - 1) + index(depth - 1);
      case 2:
        return index(depth - 1) - index(depth - 1);
      case 3:
      case 4:
        return index(depth - 1) * Expr(constant());
      case 5:
        return floordiv(index(depth - 1), Expr(static_cast<int64_t>(1 + random_.below(8))));
      case 6:
        return floormod(index(depth - 1), Expr(static_cast<int64_t>(1 + random_.below(8))));
      case 7:
        return min(index(depth - 1), index(depth - 1));
      case 8:
        return max(index(depth - 1), index(depth - 1));
      default:
        if (random_.below(3) == 0) return index(depth - 1) * index(depth - 1);
        return select(condition(depth - 1), index(depth - 1), index(depth - 1));
    }
  }
  Expr condition(int depth) {
    if (depth > 1 && random_.below(3) == 0) {
      switch (random_.below(3)) {
        case 0:
          return logical_and(condition(depth - 1), condition(depth - 1));
        case 1:
          return logical_or(condition(depth - 1), condition(depth - 1));
        default:
          return logical_not(condition(depth - 1));
      }
    }
    const Expr x = index(depth > 0 ? depth - 1 : 0), y = index(depth > 0 ? depth - 1 : 0);
    switch (random_.below(4)) {
      case 0:
        return eq(x, y);
      case 1:
        return ne(x, y);
      case 2:
        return lt(x, y);
      default:
        return le(x, y);
    }
  }

 private:
  RandomStream random_;
  std::vector<Var> vars_;
};

struct Domain {
  std::vector<Var> vars{make_var("i"), make_var("j"), make_var("k")};
  std::vector<int64_t> mins{0, -2, 0}, extents{6, 5, 4};

  void bind(Analyzer& a) const {
    for (size_t v = 0; v < vars.size(); ++v) a.bind(vars[v], mins[v], extents[v]);
  }
  void each_point(const std::function<bool(const Point&)>& fn) const {
    Point p;
    for (int64_t i = 0; i < extents[0]; ++i)
      for (int64_t j = 0; j < extents[1]; ++j)
        for (int64_t k = 0; k < extents[2]; ++k) {
          p[vars[0].get()] = mins[0] + i;
          p[vars[1].get()] = mins[1] + j;
          p[vars[2].get()] = mins[2] + k;
          if (!fn(p)) return;
        }
  }
};

// What a tail of whole vectors leaves: 32 i + 16 j + k < 400.
TEST(Analyzer, BoundsOfSumsBoundTheirWholeParts) {
  Analyzer a;
  const Var i = make_var("i"), j = make_var("j"), k = make_var("k");
  a.bind(i, 0, 13);
  a.bind(j, 0, 2);
  a.bind(k, 0, 16);
  const Expr whole = Expr(i) * 2 + j;
  EXPECT_FALSE(a.can_prove(lt(whole, 25)));
  const auto scope = a.assume(lt(Expr(i) * 32 + Expr(j) * 16 + k, 400));
  EXPECT_TRUE(a.can_prove(lt(whole, 25)));
  EXPECT_FALSE(a.can_prove(lt(whole, 24)));
  EXPECT_TRUE(a.can_prove(le(i, 12)));
  EXPECT_FALSE(a.can_prove(le(i, 11)));
}

TEST(Random, SimplifyKeepsValuesAndBoundsHold) {
  const Domain domain;
  Analyzer a;
  domain.bind(a);
  RandomExprs random(1, domain.vars);
  for (int n = 0; n < 3000; ++n) {
    const Expr e = random.index(1 + n % 5);
    const Expr s = a.simplify(e);
    const Interval bounds = a.int_bounds(e);
    const Modular mod = a.modular(e);
    domain.each_point([&](const Point& p) {
      const int64_t want = evaluate(e, p), got = evaluate(s, p);
      EXPECT_EQ(want, got) << to_text(e) << "\n  → " << to_text(s) << "\n at " << to_text(p);
      EXPECT_TRUE(bounds.contains(want)) << to_text(e);
      EXPECT_EQ(mod.coeff == 0 ? mod.base : floormod_int(want, mod.coeff), mod.base) << to_text(e);
      return !::testing::Test::HasFailure();
    });
    ASSERT_FALSE(HasFailure());
    const Expr twice = a.simplify(s);
    domain.each_point([&](const Point& p) {
      EXPECT_EQ(evaluate(e, p), evaluate(twice, p));
      return !::testing::Test::HasFailure();
    });
  }
}

TEST(Random, NothingFalseIsProven) {
  const Domain domain;
  Analyzer a;
  domain.bind(a);
  RandomExprs random(2, domain.vars);
  int proven = 0, held = 0;
  for (int n = 0; n < 4000; ++n) {
    const Expr fact = n % 2 ? random.condition(2) : bool_imm(true);
    const Expr claim = random.condition(1 + n % 4);
    const auto scope = a.assume(a.simplify(fact));
    const Expr s = a.simplify(claim);
    const bool says = a.can_prove(claim);
    bool holds = true;
    domain.each_point([&](const Point& p) {
      if (!evaluate(fact, p)) return true;
      const bool value = evaluate(claim, p);
      EXPECT_EQ(value, evaluate(s, p) != 0) << to_text(claim) << "\n  → " << to_text(s) << "\n given " << to_text(fact);
      holds = holds && value;
      return !::testing::Test::HasFailure();
    });
    EXPECT_TRUE(holds || !says) << to_text(claim) << " given " << to_text(fact);
    ASSERT_FALSE(HasFailure());
    proven += says;
    held += holds;
  }
  // Of what holds, most is found.
  EXPECT_GT(proven * 10, held * 6);
  RecordProperty("proven", proven);
  RecordProperty("held", held);
}

}  // namespace
}  // namespace fettle
