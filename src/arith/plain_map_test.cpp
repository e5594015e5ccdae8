#include "arith/plain_map.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <set>

#include "arith/test_util.h"

namespace fettle {
namespace {

struct Case {
  std::vector<Var> vars;
  PlainLoops loops;
  std::vector<Expr> bindings, extents;
  Expr predicate;

  Var loop(int64_t extent, int64_t min = 0) {
    vars.push_back(make_var("l" + std::to_string(vars.size())));
    EXPECT_TRUE(add_plain_loop(loops, vars.back().get(), min, extent));
    return vars.back();
  }
  void each_point(const std::function<void(const Point&)>& fn) const {
    Point p;
    const std::function<void(size_t)> go = [&](size_t depth) {
      if (depth == loops.size()) return fn(p);
      for (int64_t v = 0; v < loops[depth].extent; ++v) {
        p[loops[depth].var] = loops[depth].min + v;
        go(depth + 1);
      }
    };
    go(0);
  }
  // Whatever plain_map says must be true.
  void check(bool must_be_known) const {
    const auto map = plain_map(bindings, loops, predicate);
    EXPECT_TRUE(map || !must_be_known);
    if (!map) return;
    std::map<std::vector<int64_t>, int> seen;
    bool inside = true;
    each_point([&](const Point& p) {
      if (predicate && !evaluate(predicate, p)) return;
      std::vector<int64_t> values;
      for (size_t k = 0; k < bindings.size(); ++k) {
        values.push_back(evaluate(bindings[k], p));
        inside &= 0 <= values[k] && values[k] < *as_int(extents[k]);
      }
      ++seen[values];
    });
    bool once = true;
    int64_t reached = 0, total = 1;
    for (const auto& [values, times] : seen) {
      once &= times == 1;
      bool in = true;
      for (size_t k = 0; k < values.size(); ++k) in &= 0 <= values[k] && values[k] < *as_int(extents[k]);
      reached += in;
    }
    for (const Expr& e : extents) total *= *as_int(e);
    EXPECT_TRUE(!map->injective || once);
    EXPECT_TRUE(!map->covers(extents) || reached == total);
    EXPECT_TRUE(!map->stays_in(extents) || inside);
    if (!must_be_known) return;
    EXPECT_TRUE(map->injective);
    EXPECT_TRUE(map->covers(extents));
    EXPECT_TRUE(map->stays_in(extents));
  }
};

TEST(PlainMap, WhatSplitLeaves) {
  for (int64_t e = 1; e <= 13; ++e)
    for (int64_t f = 1; f <= e; ++f) {
      const int64_t n = (e + f - 1) / f;
      Case guard;
      const Var i0 = guard.loop(n), i1 = guard.loop(f);
      guard.bindings = {Expr(i0) * f + i1};
      guard.extents = {e};
      if (n * f != e) guard.predicate = lt(guard.bindings[0], e);
      guard.check(true);

      Case balance;
      const int64_t q = e / n, r = e % n;
      const Var b0 = balance.loop(n), b1 = balance.loop(r ? q + 1 : q), j = balance.loop(3);
      balance.bindings = {Expr(b0) * q + (r ? min(Expr(b0), r) : Expr(0)) + b1, j};
      balance.extents = {e, 3};
      if (r) balance.predicate = lt(b1, Expr(q) + select(lt(b0, r), 1, 0));
      balance.check(true);
    }
}

TEST(PlainMap, LoopsNotFromZero) {
  Case c;
  const Var i = c.loop(4, 2), j = c.loop(3, -1);
  c.bindings = {Expr(i) * 3 + j - 5};
  c.extents = {12};
  c.check(true);
}

TEST(PlainMap, RepeatedLoopsAreNotInjective) {
  Case c;
  const Var i = c.loop(4);
  c.loop(2);
  c.bindings = {i};
  c.extents = {4};
  const auto map = plain_map(c.bindings, c.loops, nullptr);
  ASSERT_TRUE(map);
  EXPECT_FALSE(map->injective);
  EXPECT_TRUE(map->covers(c.extents));
}

TEST(PlainMap, NothingForOtherForms) {
  Case c;
  const Var i = c.loop(8);
  EXPECT_FALSE(plain_map(std::vector<Expr>{floordiv(i, 3)}, c.loops, nullptr));
  EXPECT_FALSE(plain_map(std::vector<Expr>{floordiv(Expr(i) + 1, 2)}, c.loops, nullptr));
  EXPECT_FALSE(plain_map(std::vector<Expr>{floormod(floormod(i, 4), 2)}, c.loops, nullptr));
  EXPECT_FALSE(plain_map(std::vector<Expr>{floordiv(i, 2), cast(kI64, cast(kI32, i))}, c.loops, nullptr));
  EXPECT_FALSE(plain_map(std::vector<Expr>{i, Expr(i) + 1}, c.loops, nullptr));
  EXPECT_FALSE(plain_map(std::vector<Expr>{Expr(0) - Expr(i)}, c.loops, nullptr));
}

TEST(PlainMap, WhatFusingLeaves) {
  for (int64_t a = 1; a <= 4; ++a)
    for (int64_t b = 1; b <= 4; ++b)
      for (int64_t c = 1; c <= 3; ++c) {
        Case fused;
        const Var f = fused.loop(a * b * c), inner = fused.loop(2);
        fused.bindings = {floormod(f, c), floordiv(f, b * c) * 2 + inner, floormod(floordiv(f, c), b)};
        fused.extents = {c, a * 2, b};
        fused.check(true);

        Case parts;  // what is left out is not told apart; the whole loop is the sum of its digits
        const Var g = parts.loop(a * b * c);
        parts.bindings = {floordiv(g, c)};
        parts.extents = {a * b};
        const auto map = plain_map(parts.bindings, parts.loops, nullptr);
        ASSERT_TRUE(map);
        EXPECT_EQ(map->injective, c == 1);
        parts.check(false);
        parts.bindings = {Expr(g) * 3 + floormod(g, c)};
        parts.extents = {a * b * c * 3 + c};
        parts.check(false);
        parts.bindings = {floordiv(g, c), floormod(g, c)};
        parts.extents = {a * b, c};
        parts.predicate = lt(floordiv(g, c), a);
        parts.check(false);
      }
}

TEST(PlainMap, RandomDigitsAgainstAllPoints) {
  std::mt19937 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 3000; ++round) {
    Case c;
    const size_t n_loops = 1 + static_cast<size_t>(below(2)), n_bindings = 1 + static_cast<size_t>(below(3));
    for (size_t i = 0; i < n_loops; ++i) c.loop(1 + below(24), below(8) == 0 ? below(3) - 1 : 0);
    for (size_t k = 0; k < n_bindings; ++k) {
      Expr sum = 0;
      for (const Var& v : c.vars) {
        const int64_t d = 1 + below(6), m = 1 + below(6);
        const Expr parts[] = {v,
                              floordiv(v, d),
                              floormod(v, m),
                              floormod(floordiv(v, d), m),
                              floordiv(floormod(v, m), d),
                              min(floordiv(v, d), m)};
        if (below(3) > 0) sum = sum + parts[below(6)] * (1 + below(8));
      }
      c.bindings.push_back(sum);
      c.extents.push_back(1 + below(24));
    }
    if (below(3) == 0) c.predicate = lt(c.bindings[0], 1 + below(12));
    c.check(false);
  }
}

TEST(PlainMap, RandomSumsAgainstAllPoints) {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 3000; ++round) {
    Case c;
    const size_t n_loops = 1 + static_cast<size_t>(below(4)), n_bindings = 1 + static_cast<size_t>(below(2));
    for (size_t i = 0; i < n_loops; ++i) c.loop(1 + below(4), below(4) == 0 ? below(3) - 1 : 0);
    for (size_t k = 0; k < n_bindings; ++k) {
      Expr sum = below(3) == 0 ? below(3) - 1 : 0;
      for (const Var& v : c.vars) {
        if (below(2)) sum = sum + Expr(v) * (1 + below(5));
        if (below(5) == 0) sum = sum + min(Expr(v), 1 + below(3)) * (1 + below(2));
      }
      c.bindings.push_back(sum);
      c.extents.push_back(1 + below(9));
    }
    for (int n = static_cast<int>(below(3)); n > 0; --n) {
      const Expr& binding = c.bindings[static_cast<size_t>(below(static_cast<int64_t>(n_bindings)))];
      const Expr v = c.vars[static_cast<size_t>(below(static_cast<int64_t>(n_loops)))];
      const Expr w = c.vars[static_cast<size_t>(below(static_cast<int64_t>(n_loops)))];
      const Expr condition =
          below(2) ? lt(binding, 1 + below(9)) : lt(v, Expr(1 + below(3)) + select(lt(w, 1 + below(2)), 1, 0));
      c.predicate = logical_and(c.predicate, condition);
    }
    c.check(false);
    if (HasFailure()) return;
  }
}

TEST(PlainRange, HullsAgainstAllPoints) {
  Case c;
  const Var outer = make_var("outer"), i = c.loop(5), j = c.loop(3, 1), iter = make_var("v");
  const std::vector<IterVar> iters = {
      {iter, 100, IterKind::kSpatial, Expr(outer) * 7 + Expr(i) * 4 - Expr(j) + min(Expr(i), 2)}};
  PlainSum sum;
  ASSERT_TRUE(add_plain(sum, Expr(iter) * 2 + 3, 1, iters, c.loops));
  const PlainRange range = plain_range(sum, c.loops);
  EXPECT_EQ(range.outer.coeff_of(outer), 14);
  int64_t low = INT64_MAX, high = INT64_MIN;
  c.each_point([&](const Point& p) {
    Point at = p;
    at[outer.get()] = 0;
    const int64_t value = evaluate(iters[0].binding, at) * 2 + 3;
    low = std::min(low, value);
    high = std::max(high, value);
  });
  EXPECT_EQ(range.low, low);
  EXPECT_EQ(range.high, high);
  EXPECT_TRUE(plain_covers(range, range));
  PlainRange wider = range;
  ++wider.high;
  EXPECT_TRUE(plain_covers(wider, range));
  EXPECT_FALSE(plain_covers(range, wider));
}

}  // namespace
}  // namespace fettle
