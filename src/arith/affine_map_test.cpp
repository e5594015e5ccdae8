#include "arith/affine_map.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "arith/int_eval.h"
#include "arith/test_util.h"
#include "base/random.h"
#include "ir/text.h"
#include "ir/visit.h"

namespace fettle {
namespace {

// A nest over iterators, edited as a schedule would.
struct Nest {
  std::vector<VarDomain> loops;
  std::vector<Expr> bindings, extents;
  Expr predicate;
  int made = 0;

  explicit Nest(const std::vector<int64_t>& sizes) {
    for (const int64_t n : sizes) {
      bindings.push_back(add(loops.size(), n));
      extents.push_back(n);
    }
  }
  Var add(size_t at, int64_t extent) {
    Var var = make_var("l" + std::to_string(made++));
    loops.insert(loops.begin() + static_cast<std::ptrdiff_t>(at), {var, {0, extent}});
    return var;
  }
  int64_t extent(size_t at) const { return *as_int(loops[at].range.extent); }
  void replace(const Var& var, const Expr& value) {
    const VarMap map{{var.get(), value}};
    for (Expr& b : bindings) b = substitute(b, map);
    if (predicate) predicate = substitute(predicate, map);
  }
  void split(size_t at, int64_t f, Tail tail) {
    const int64_t e = extent(at);
    const Var old = loops[at].var;
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(at));
    const int64_t outer = (e + f - 1) / f;
    if (tail == Tail::kBalance) {
      const int64_t q = e / outer, r = e % outer;
      const Var i0 = add(at, outer), i1 = add(at + 1, r ? q + 1 : q);
      replace(old, Expr(i0) * q + min(Expr(i0), r) + i1);
      if (r) predicate = logical_and(predicate, lt(i1, q + select(lt(i0, r), Expr(1), Expr(0))));
      return;
    }
    const Var i0 = add(at, outer), i1 = add(at + 1, std::min(f, e));
    if (tail == Tail::kShift) {
      replace(old, min(Expr(i0) * f, std::max<int64_t>(e - f, 0)) + i1);
    } else {
      replace(old, Expr(i0) * f + i1);
      if (e % f) predicate = logical_and(predicate, lt(Expr(i0) * f + i1, e));
    }
  }
  void fuse(size_t at) {
    const int64_t e0 = extent(at), e1 = extent(at + 1);
    const Var x = loops[at].var, y = loops[at + 1].var;
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(at), loops.begin() + static_cast<std::ptrdiff_t>(at) + 2);
    const Var f = add(at, e0 * e1);
    replace(x, floordiv(f, e1));
    replace(y, floormod(f, e1));
  }
  AffineMap detect() const {
    Analyzer a;
    return detect_affine_map(bindings, extents, loops, predicate, a);
  }
  std::string text() const {
    std::string s;
    for (const auto& l : loops) s += l.var->name + " in " + to_text(l.range.extent) + ", ";
    for (const Expr& b : bindings) s += "\n  " + to_text(b);
    if (predicate) s += "\n  where " + to_text(predicate);
    return s;
  }
  // What is true, by trying all points.
  void enumerate(bool* injective, bool* covers) const {
    std::map<std::vector<int64_t>, int> seen;
    Point p;
    const std::function<void(size_t)> go = [&](size_t depth) {
      if (depth == loops.size()) {
        if (predicate && !evaluate(predicate, p)) return;
        std::vector<int64_t> values;
        for (const Expr& b : bindings) values.push_back(evaluate(b, p));
        ++seen[values];
        return;
      }
      for (int64_t v = 0; v < extent(depth); ++v) {
        p[loops[depth].var.get()] = v;
        go(depth + 1);
      }
    };
    go(0);
    *injective = true;
    int64_t inside = 0, total = 1;
    for (const auto& [values, times] : seen) {
      *injective &= times == 1;
      bool in = true;
      for (size_t k = 0; k < values.size(); ++k) in &= 0 <= values[k] && values[k] < *as_int(extents[k]);
      inside += in;
    }
    for (const Expr& e : extents) total *= *as_int(e);
    *covers = inside == total;
  }
};

TEST(AffineMap, Tails) {
  for (const Tail tail : {Tail::kGuard, Tail::kBalance, Tail::kShift}) {
    Nest nest({197});
    nest.split(0, 14, tail);
    const AffineMap map = nest.detect();
    EXPECT_TRUE(map.affine) << map.reason;
    EXPECT_TRUE(map.covers) << map.reason << "\n" << nest.text();
    EXPECT_EQ(map.injective, tail != Tail::kShift);
    EXPECT_TRUE(map.independent);
  }
}

// The tiles of an open count: each index once, as long as it is known how many tiles there are.
TEST(AffineMap, OpenBalance) {
  const Var count = make_var("n"), outer = make_var("i_0"), inner = make_var("i_1");
  for (const int64_t tile : {3, 6, 14}) {
    const OpenBalance balanced = open_balance(outer, inner, count, tile);
    const auto detected = [&](const Expr& tiles, const Expr& predicate) {
      Analyzer a;
      a.bind(count, 0, 1000);
      return detect_affine_map({balanced.index}, {count}, {{outer, {0, tiles}}, {inner, {0, tile}}}, predicate, a);
    };
    const Expr tiles = floordiv(count + (tile - 1), tile), inside = lt(inner, balanced.length);
    const AffineMap map = detected(tiles, inside);
    EXPECT_TRUE(map.bijective()) << map.reason << " " << to_text(balanced.index) << to_text(inside);
    EXPECT_FALSE(detected(tiles + 1, inside).injective);
    EXPECT_FALSE(detected(tiles, nullptr).injective);
    for (int64_t n = 0; n < 4 * tile; ++n) {
      std::vector<int64_t> found;
      int64_t shortest = tile;
      for (int64_t i = 0; i * tile < n; ++i) {
        Point p{{count.get(), n}, {outer.get(), i}};
        const int64_t length = evaluate(balanced.length, p);
        shortest = std::min(shortest, length);
        for (p[inner.get()] = 0; p[inner.get()] < length; ++p[inner.get()])
          found.push_back(evaluate(balanced.index, p));
      }
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(found[static_cast<size_t>(i)], i) << n << " by " << tile;
      EXPECT_EQ(found.size(), static_cast<size_t>(n));
      EXPECT_TRUE(n <= tile || 2 * shortest >= tile) << n << " by " << tile;
    }
  }
}

// Also of counts that are quotients: each index lies within.
TEST(AffineMap, OpenBalanceStaysInside) {
  const Var n = make_var("n"), outer = make_var("i_0"), inner = make_var("i_1");
  const std::vector<Expr> counts = {n, floordiv(n + 3, 4), floordiv(n + 15, 16), n * 3, floordiv(n - 3, 2) + 1};
  for (const Expr& count : counts)
    for (const int64_t tile : {3, 4, 5, 6, 7, 14}) {
      Analyzer a;
      a.bind(n, 0, int64_t{1} << 40);
      a.bind(outer, 0, a.simplify(floordiv(count + (tile - 1), tile)));
      a.bind(inner, 0, tile);
      const OpenBalance balanced = open_balance(outer, inner, count, tile);
      const auto scope = a.assume(lt(inner, balanced.length));
      const Expr index = Analyzer().simplify(balanced.index);
      EXPECT_TRUE(a.can_prove_nonnegative(a.linear(index))) << to_text(count) << " by " << tile;
      EXPECT_TRUE(a.can_prove_nonnegative(a.linear(count - index - 1))) << to_text(count) << " by " << tile;
    }
}

TEST(AffineMap, NestedTails) {
  for (const Tail first : {Tail::kGuard, Tail::kBalance, Tail::kShift})
    for (const Tail second : {Tail::kGuard, Tail::kBalance, Tail::kShift}) {
      for (const size_t at : {0, 1}) {
        Nest nest({197});
        nest.split(0, 14, first);
        nest.split(at, 4, second);
        const AffineMap map = nest.detect();
        bool injective, covers;
        nest.enumerate(&injective, &covers);
        EXPECT_LE(map.injective, injective) << nest.text();
        EXPECT_LE(map.covers, covers) << nest.text();
        EXPECT_TRUE(map.covers || at != 0) << map.reason << "\n" << nest.text();
      }
    }
}

TEST(AffineMap, FuseAndSplitAgain) {
  Nest nest({6, 10});
  nest.fuse(0);
  EXPECT_TRUE(nest.detect().bijective()) << nest.detect().reason;
  nest.split(0, 7, Tail::kGuard);
  EXPECT_TRUE(nest.detect().bijective()) << nest.detect().reason << nest.text();
  Nest even({8, 16});
  even.fuse(0);
  even.split(0, 4, Tail::kGuard);
  EXPECT_TRUE(even.detect().bijective()) << even.detect().reason << even.text();
  Nest after({10, 9});
  after.split(0, 4, Tail::kGuard);
  after.fuse(1);
  EXPECT_TRUE(after.detect().bijective()) << after.detect().reason << after.text();
  for (const Tail tail : {Tail::kGuard, Tail::kBalance})
    for (const int64_t longer : {9, 11, 16}) {  // than a row: the simplifier takes whole rows out of the part
      Nest rows({9, 7});
      rows.fuse(0);
      rows.split(0, longer, tail);
      EXPECT_TRUE(rows.detect().bijective()) << longer << " " << rows.detect().reason << rows.text();
    }
}

TEST(AffineMap, DeclinesWhatIsNot) {
  Analyzer a;
  const Var i = make_var("i"), j = make_var("j");
  const std::vector<VarDomain> loops{{i, {0, 8}}, {j, {0, 8}}};
  EXPECT_FALSE(detect_affine_map({i, i}, {8, 8}, loops, nullptr, a).covers);
  EXPECT_FALSE(detect_affine_map({i, i}, {8, 8}, loops, nullptr, a).independent);
  EXPECT_FALSE(detect_affine_map({Expr(i)}, {8}, loops, nullptr, a).injective);
  EXPECT_TRUE(detect_affine_map({Expr(i)}, {8}, loops, nullptr, a).covers);
  EXPECT_FALSE(detect_affine_map({Expr(i) * 2 + j}, {22}, loops, nullptr, a).injective);
  EXPECT_TRUE(detect_affine_map({Expr(i) * 2 + j}, {22}, loops, nullptr, a).covers);
  EXPECT_FALSE(detect_affine_map({Expr(i) * 9 + j}, {71}, loops, nullptr, a).covers);
  EXPECT_TRUE(detect_affine_map({Expr(i) * 9 + j}, {71}, loops, nullptr, a).injective);
  EXPECT_FALSE(detect_affine_map({Expr(i) * j}, {50}, loops, nullptr, a).affine);
  EXPECT_FALSE(detect_affine_map({floordiv(i, 3), floormod(i, 3)}, {3, 3}, loops, nullptr, a).covers);
  EXPECT_FALSE(detect_affine_map({i, j}, {8, 8}, loops, lt(i, j), a).covers);
}

TEST(AffineMap, HaloAndClipping) {
  Analyzer a;
  const Var o = make_var("o"), ax = make_var("ax");
  const std::vector<VarDomain> loops{{o, {0, 7}}, {ax, {0, 10}}};
  const Expr row = Expr(o) * 8 + ax - 1;
  const auto map = detect_affine_map({row}, {56}, loops, logical_and(le(0, row), lt(row, 56)), a);
  EXPECT_TRUE(map.affine);
  EXPECT_TRUE(map.covers) << map.reason;
  EXPECT_FALSE(map.injective);
}

TEST(AffineMap, SymbolicExtent) {
  Analyzer a;
  const Var n = make_var("n"), i0 = make_var("i0"), i1 = make_var("i1");
  a.bind_range(n, {1, 1000});
  const std::vector<VarDomain> loops{{i0, {0, floordiv(Expr(n) + 15, 16)}}, {i1, {0, 16}}};
  const auto map = detect_affine_map({Expr(i0) * 16 + i1}, {n}, loops, lt(Expr(i0) * 16 + i1, n), a);
  EXPECT_TRUE(map.bijective()) << map.reason;
}

TEST(AffineMap, RandomSchedulesAgreeWithEnumeration) {
  RandomStream random({11});
  int exact = 0, total = 0;
  for (int round = 0; round < 1500; ++round) {
    Nest nest({static_cast<int64_t>(1 + random.below(20)), static_cast<int64_t>(1 + random.below(9))});
    for (uint64_t step = 0, steps = random.below(4); step < steps; ++step) {
      const size_t at = random.below(nest.loops.size());
      const uint64_t what = random.below(6);
      if (what == 0 && at + 1 < nest.loops.size()) {
        nest.fuse(at);
      } else if (what == 1) {
        std::swap(nest.loops[at], nest.loops[random.below(nest.loops.size())]);
      } else {
        const Tail tail = what == 2 ? Tail::kBalance : what == 3 ? Tail::kShift : Tail::kGuard;
        nest.split(at, static_cast<int64_t>(1 + random.below(7)), tail);
      }
    }
    const AffineMap map = nest.detect();
    bool injective, covers;
    nest.enumerate(&injective, &covers);
    ASSERT_TRUE(covers) << nest.text();
    ASSERT_TRUE(injective || !map.injective) << nest.text();
    ASSERT_TRUE(covers || !map.covers) << nest.text();
    ++total;
    exact += map.covers == covers && map.injective == injective;
  }
  RecordProperty("exact", exact);
  EXPECT_GT(exact * 100, total * 85) << exact << " of " << total;
}

// --- inverses ---------------------------------------------------------------------------------------------------

void expect_inverse(const IndexMap& map, const std::vector<int64_t>& shape, bool padded) {
  Analyzer a;
  std::vector<Expr> extents(shape.begin(), shape.end());
  const auto result = invert(map, extents, a);
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(result->valid != nullptr, padded);
  std::vector<int64_t> physical;
  for (const Expr& e : result->physical_shape) physical.push_back(*as_int(e));
  std::set<std::vector<int64_t>> valid_points;
  // logical → physical → logical
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  for (int64_t flat = 0; flat < count; ++flat) {
    Point p, q;
    std::vector<int64_t> logical(shape.size());
    for (size_t d = shape.size(), left = static_cast<size_t>(flat); d-- > 0;) {
      logical[d] = static_cast<int64_t>(left) % shape[d];
      left /= static_cast<size_t>(shape[d]);
      p[map.inputs[d].get()] = logical[d];
    }
    std::vector<int64_t> at;
    for (size_t k = 0; k < map.outputs.size(); ++k) {
      at.push_back(evaluate(map.outputs[k], p));
      ASSERT_LT(at.back(), physical[k]);
      q[result->inverse.inputs[k].get()] = at.back();
    }
    valid_points.insert(at);
    for (size_t d = 0; d < shape.size(); ++d) ASSERT_EQ(evaluate(result->inverse.outputs[d], q), logical[d]);
    if (result->valid) {
      ASSERT_TRUE(evaluate(result->valid, q));
    }
  }
  // The predicate holds nowhere else.
  int64_t points = 1, holds = 0;
  for (const int64_t n : physical) points *= n;
  for (int64_t flat = 0; flat < points; ++flat) {
    Point q;
    for (size_t k = physical.size(), left = static_cast<size_t>(flat); k-- > 0;) {
      q[result->inverse.inputs[k].get()] = static_cast<int64_t>(left) % physical[k];
      left /= static_cast<size_t>(physical[k]);
    }
    holds += !result->valid || evaluate(result->valid, q);
  }
  EXPECT_EQ(holds, count);
}

TEST(IndexMap, Inverses) {
  const Var n = make_var("n"), c = make_var("c"), h = make_var("h"), w = make_var("w");
  expect_inverse({{n, c, h, w}, {n, floordiv(c, 16), h, w, floormod(c, 16)}}, {2, 64, 3, 3}, false);
  expect_inverse({{n, c, h, w}, {n, floordiv(c, 16), h, w, floormod(c, 16)}}, {1, 60, 2, 3}, true);
  expect_inverse({{n, c, h, w}, {n, h, w, c}}, {2, 5, 3, 4}, false);
  expect_inverse({{h, w}, {Expr(w) * 5 + h}}, {5, 7}, false);
  expect_inverse({{h, w}, {floordiv(Expr(h) * 7 + w, 16), floormod(Expr(h) * 7 + w, 16)}}, {5, 7}, true);
  expect_inverse({{h, w}, {floordiv(w, 32), h, floormod(floordiv(w, 8), 4), floormod(w, 8)}}, {3, 64}, false);
}

// Blocks of an open extent are rounded up, and say what of them there is.
TEST(IndexMap, InversesOfOpenExtents) {
  Analyzer a;
  const Var n = make_var("n"), k = make_var("k"), j = make_var("j");
  a.bind_range(n, {0, 1000});
  const auto padded = invert_rounded({{k, j}, {floordiv(j, 32), k, floormod(j, 32)}}, {24, n}, a);
  ASSERT_TRUE(padded);
  for (const int64_t value : {1, 31, 32, 33, 100}) {
    const IntEnv env{{n.get(), value}};
    EXPECT_EQ(*evaluate_int(padded->physical_shape[0], env), (value + 31) / 32);
    int64_t valid = 0;
    for (int64_t block = 0; block < (value + 31) / 32; ++block)
      for (int64_t lane = 0; lane < 32; ++lane) {
        const IntEnv at{{n.get(), value},
                        {padded->inverse.inputs[0].get(), block},
                        {padded->inverse.inputs[1].get(), 5},
                        {padded->inverse.inputs[2].get(), lane}};
        EXPECT_EQ(*evaluate_int(padded->inverse.outputs[1], at), block * 32 + lane);
        valid += *evaluate_int(padded->valid, at);
      }
    EXPECT_EQ(valid, value);
  }
  EXPECT_TRUE(invert({{k, j}, {j, k}}, {24, n}, a));
}

TEST(IndexMap, RefusesWhatHasNone) {
  Analyzer a;
  const Var h = make_var("h"), w = make_var("w");
  EXPECT_EQ(invert({{h, w}, {Expr(h) + w}}, {4, 4}, a).error().code, ErrorCode::E217);
  EXPECT_EQ(invert({{h, w}, {h}}, {4, 4}, a).error().code, ErrorCode::E217);
  EXPECT_EQ(invert({{h, w}, {h, floordiv(w, 2)}}, {4, 4}, a).error().code, ErrorCode::E217);
  EXPECT_EQ(invert({{h, w}, {h, Expr(w) * 2}}, {4, 4}, a).error().code, ErrorCode::E217);
  EXPECT_EQ(invert({{h, w}, {h, w, floormod(w, 2)}}, {4, 4}, a).error().code, ErrorCode::E217);
}

}  // namespace
}  // namespace fettle
