#include "cost/loop_tree/loop_points.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace fettle {
namespace {

// The same value, in a form that is evaluated anew at each point.
Expr opaque(const Expr& e) { return binary(BinaryOp::kBitAnd, e, Expr(-1)); }
Expr opaque_condition(const Expr& e) { return ne(opaque(select(e, 1, 0)), 0); }

struct Paths {
  RandomStream stream;
  std::vector<Var> vars;

  int64_t below(int64_t n) { return static_cast<int64_t>(stream.below(static_cast<uint64_t>(n))); }
  Expr leaf() {
    if (vars.empty() || below(4) == 0) return below(7) - 1;
    return vars[static_cast<size_t>(below(static_cast<int64_t>(vars.size())))];
  }
  Expr integer(int depth) {
    if (depth == 0) return leaf();
    const Expr a = integer(depth - 1), b = integer(depth - 1);
    switch (below(8)) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return a * (1 + below(3));
      case 3:
        return floordiv(a, 1 + below(4));
      case 4:
        return floormod(a, 1 + below(4));
      case 5:
        return min(a, b);
      case 6:
        return max(a, b);
      default:
        return select(condition(depth - 1), a, b);
    }
  }
  Expr condition(int depth) {
    const Expr a = integer(depth), b = integer(depth);
    switch (below(5)) {
      case 0:
        return le(a, b);
      case 1:
        return logical_and(lt(a, b), le(b, a + 3));
      case 2:
        return logical_or(eq(a, b), lt(b, a));
      case 3:
        return logical_not(lt(a, b));
      default:
        return lt(a, b);
    }
  }
};

TEST(LoopPoints, CodeThatIsHoistedGivesTheSameNumbers) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Paths make{RandomStream{seed}, {}};
    LoopPath path;
    IntEnv middle;
    const int64_t length = 1 + make.below(5);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t kind = make.below(8);
      if (kind == 0 && i > 0) {
        const Expr condition = make.condition(1);
        path.push_condition(condition, make.below(2) == 1);
        continue;
      }
      const Var var = make_var("v" + std::to_string(i));
      if (kind == 1) {
        path.push_let(var.get(), make.integer(2));
        middle.push(var.get(), 1);
      } else {
        const Expr min = make.below(3) == 0 ? make.integer(1) : Expr(0);
        // Some so long that not all points are looked at.
        const Expr extent = make.below(3) == 0 ? make.integer(1) : Expr(1 + make.below(seed % 5 == 0 ? 40 : 6));
        path.push_loop(var.get(), min, extent);
        middle.push(var.get(), 2);
      }
      make.vars.push_back(var);
    }
    const LoopPoints points(path, middle);
    const Expr extent = make.integer(2), condition = make.condition(2);
    EXPECT_EQ(points.average_extent(extent), points.average_extent(opaque(extent))) << seed;
    EXPECT_EQ(points.share(condition), points.share(opaque_condition(condition))) << seed;
    const ValueCounts hoisted = points.counts({extent}, 16), plain = points.counts({opaque(extent)}, 16);
    EXPECT_EQ(hoisted, plain) << seed;
  }
}

TEST(LoopPoints, LoopsThatNothingDependsOnCount) {
  const Var i = make_var("i"), j = make_var("j"), k = make_var("k");
  LoopPath path;
  path.push_loop(i.get(), 0, 8);
  path.push_loop(j.get(), 0, 1000);
  path.push_loop(k.get(), 0, 4);
  const IntEnv middle = {{i.get(), 4}, {j.get(), 500}, {k.get(), 2}};
  const LoopPoints points(path, middle);
  EXPECT_EQ(points.share(lt(Expr(i) + k, 3)), 6.0 / 32);
  EXPECT_EQ(points.average_extent(min(i, 4)), 22.0 / 8);
  LoopPath never;
  never.push_loop(i.get(), 0, 8);
  never.push_loop(j.get(), 0, 0);
  EXPECT_EQ(LoopPoints(never, middle).share(lt(i, 3)), 0);
}

}  // namespace
}  // namespace fettle
