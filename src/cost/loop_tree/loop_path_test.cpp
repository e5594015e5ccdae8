#include "cost/loop_tree/loop_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/random.h"
#include "cost/loop_tree/loop_points.h"

namespace fettle {
namespace {

TEST(PathParts, BindingsThatShareNoVariable) {
  const Var i = make_var("i"), j = make_var("j"), k = make_var("k"), n = make_var("n");
  LoopPath path;
  path.push_let(n.get(), 70);                         // 0
  path.push_loop(i.get(), 0, 20);                     // 1
  path.push_loop(j.get(), 0, 30);                     // 2
  path.push_loop(k.get(), 0, 40);                     // 3
  path.push_condition(lt(Expr(i) * 2 + k, Expr(n)));  // 4
  path.push_condition(lt(j, Expr(n) - 41));           // 5
  const PathParts parts(path, path.size(), {Expr(k), Expr(j), Expr(n)});
  EXPECT_EQ(parts.bindings_of(parts.part_of_expr(0), {0}), (std::vector<size_t>{0, 1, 3, 4}));
  EXPECT_EQ(parts.bindings_of(parts.part_of_expr(1), {1}), (std::vector<size_t>{0, 2, 5}));
  EXPECT_EQ(parts.part_of_expr(2), std::nullopt);
  EXPECT_EQ(parts.bindings_of(std::nullopt, {2}), (std::vector<size_t>{0}));
}

TEST(LoopPath, FusedLoopsAreBoundByTheDigitsThatAreRead) {
  const Var f = make_var("f"), i = make_var("i");
  const Expr high = floormod(floordiv(f, 160), 4), low = floormod(f, 40);
  const Stmt body = make_for(f, 0, 1280, if_then(lt(high * 7, 20), call_func("g", {low})));
  LoopPath path;
  path.note_uses(body);
  path.push_loop(i.get(), 0, 3);
  path.push_loop(f.get(), 0, 1280);
  ASSERT_EQ(path.size(), 5U);
  const int64_t extents[] = {2, 4, 4, 40};
  for (size_t d = 0; d < 4; ++d) EXPECT_EQ(*as_int(path[d + 1].extent), extents[d]);
  EXPECT_EQ(path.in_digits(high).as<VarNode>(), path[2].var);
  EXPECT_EQ(path.in_digits(low).as<VarNode>(), path[4].var);
  path.pop();
  EXPECT_EQ(path.size(), 1U);
  EXPECT_EQ(path.in_digits(low).as<BinaryNode>(), low.as<BinaryNode>());
  // 7 does not divide 160: it stays whole.
  LoopPath whole;
  whole.note_uses(make_for(f, 0, 1280, if_then(lt(high, floormod(f, 7)), evaluate(0))));
  whole.push_loop(f.get(), 0, 1280);
  EXPECT_EQ(whole.size(), 1U);
}

// A random nest of a fused loop and others, with lets and conditions between.
struct Nest {
  RandomStream stream;
  std::vector<Expr> leaves;
  std::vector<LoopBinding> bindings;
  std::vector<Var> vars;

  explicit Nest(uint64_t seed) : stream{seed} {
    const Var fused = make_var("f");
    add(fused, {fused.get(), 0, 24, nullptr, false});
    leaves = {floordiv(fused, 6), floormod(floordiv(fused, 2), 3), floormod(fused, 2)};
    if (below(4) == 0) leaves.push_back(fused);
    const int64_t length = 2 + below(6);
    int64_t loops = 0;
    for (int64_t i = 0; i < length; ++i) {
      const int64_t kind = below(3);
      if (kind == 0) {
        add(nullptr, {nullptr, nullptr, nullptr, condition(), below(3) == 0});
        continue;
      }
      const Var var = make_var("v");
      if (kind == 1 || loops == 4) {
        add(var, {var.get(), nullptr, nullptr, below(2) == 0 ? Expr(below(5)) : integer(), false});
      } else {
        ++loops;
        const Expr extent = below(4) == 0 ? min(3, max(integer(), 0)) : Expr(1 + below(3));
        add(var, {var.get(), below(4) == 0 ? integer() : Expr(0), extent, nullptr, false});
      }
      leaves.push_back(var);
    }
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(stream.below(static_cast<uint64_t>(n))); }
  Expr leaf() { return leaves[static_cast<size_t>(below(static_cast<int64_t>(leaves.size())))]; }
  Expr integer() { return below(2) == 0 ? leaf() * (1 + below(2)) + below(4) : leaf() - leaf() + 1; }
  Expr condition() { return below(4) == 0 ? logical_or(lt(leaf(), 2), eq(leaf(), leaf())) : lt(integer(), integer()); }

  void add(const Var& var, LoopBinding binding) {
    bindings.push_back(std::move(binding));
    vars.push_back(var);
  }
  Stmt body(const std::vector<Expr>& asked) const {
    Stmt s = call_func("g", asked);
    for (size_t i = bindings.size(); i-- > 0;) {
      const LoopBinding& b = bindings[i];
      if (b.is_condition()) {
        s = if_then(b.negated ? logical_not(b.value) : b.value, s);
      } else {
        s = b.is_loop() ? make_for(vars[i], b.min, b.extent, s) : let(vars[i], b.value, s);
      }
    }
    return s;
  }
  /// Each point, the slow way.
  void for_each(IntEnv& env, size_t at, const std::function<void(const IntEnv&)>& fn) const {
    if (at == bindings.size()) return fn(env);
    const LoopBinding& b = bindings[at];
    if (b.is_condition()) {
      if ((estimate_int(b.value, env) != 0) != b.negated) for_each(env, at + 1, fn);
      return;
    }
    const int64_t first = estimate_int(b.is_loop() ? b.min : b.value, env);
    const int64_t times = b.is_loop() ? estimate_int(b.extent, env) : 1;
    for (int64_t i = 0; i < times; ++i) {
      env.push(b.var, first + i);
      for_each(env, at + 1, fn);
      env.pop();
    }
  }
};

TEST(LoopPoints, PartsAndDigitsGiveTheNumbersOfAllPoints) {
  int64_t nests_with_points = 0, fused_in_digits = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Nest nest(seed);
    const std::vector<Expr> asked = {nest.integer(), nest.integer(), nest.integer()};
    const Expr condition = nest.condition();
    double total = 0, holds = 0, iterations = 0;
    std::map<std::vector<int64_t>, double> values;
    IntEnv env;
    nest.for_each(env, 0, [&](const IntEnv& at) {
      ++total;
      holds += estimate_int(condition, at) != 0;
      iterations += static_cast<double>(std::max<int64_t>(0, estimate_int(asked[0], at)));
      std::vector<int64_t> row;
      for (const Expr& e : asked) row.push_back(estimate_int(e, at));
      ++values[row];
    });
    nests_with_points += total > 0;
    ValueCounts expected(values.begin(), values.end());
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });

    LoopPath path;
    if (seed % 3 != 0) path.note_uses(nest.body(asked));
    for (const LoopBinding& b : nest.bindings) {
      if (b.is_condition()) {
        path.push_condition(b.value, b.negated);
      } else if (b.is_loop()) {
        path.push_loop(b.var, b.min, b.extent);
      } else {
        path.push_let(b.var, b.value);
      }
    }
    fused_in_digits += path.size() > nest.bindings.size();
    const IntEnv middle;
    const LoopPoints points(path, middle);
    EXPECT_EQ(points.share(condition), total > 0 ? holds / total : 0) << seed;
    EXPECT_EQ(points.average_extent(asked[0]), total > 0 ? iterations / total : 0) << seed;
    for (const size_t most : {size_t{2}, size_t{1000}}) {
      ValueCounts counts = points.counts(asked, most);
      double counted = 0;
      for (const auto& [row, count] : counts) counted += count;
      for (auto& [row, count] : counts) count /= counted;
      ValueCounts kept = expected;
      for (; kept.size() > most; kept.pop_back()) kept[kept.size() - 2].second += kept.back().second;
      for (auto& [row, count] : kept) count /= total;
      EXPECT_EQ(counts, kept) << seed << " most " << most;
    }
  }
  EXPECT_GT(nests_with_points, 200);
  EXPECT_GT(fused_in_digits, 100);
}

}  // namespace
}  // namespace fettle
