#include "tune/parts/straight_runs.h"

#include <gtest/gtest.h>

#include <functional>

#include "schedule/dataflow/dataflow.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle {
namespace {

using Runs = std::vector<int64_t>;
using Indices = std::vector<Var>;

// Of the last loop of a copy of A[5, 56] into so many columns.
Runs runs_of(int64_t columns, const std::function<Expr(const Expr& row, const Expr& column)>& index) {
  const te::Tensor a = te::placeholder({5, 56}, kF32, "A");
  const te::Tensor y =
      te::compute({5, columns}, [&](const Indices& i) { return a(Expr(i[0]), index(i[0], i[1])); }, "Y", {"h", "w"});
  const Func func = te::create_func("copy", {a}, {y});
  const auto structure = block_structure(func, *blocks_of(func.root()).front());
  return structure ? straight_runs(*structure, 1) : Runs{-1};
}

TEST(StraightRuns, EndWhereAnIndexBends) {
  const auto reflected = [](const Expr&, const Expr& w) {
    const Expr k = w - 3, folded = max(k, Expr(0) - k);
    return min(folded, Expr(110) - folded);
  };
  EXPECT_EQ(runs_of(62, reflected), (Runs{4, 55, 3}));
  EXPECT_EQ(runs_of(61, [](const Expr&, const Expr& w) { return min(max(w - 2, Expr(0)), Expr(55)); }),
            (Runs{3, 55, 3}));
  EXPECT_EQ(runs_of(112, [](const Expr&, const Expr& w) { return floormod(w, Expr(56)); }), (Runs{56, 56}));
}

TEST(StraightRuns, AreNoneWhereOneWouldDoOrManyAreNeeded) {
  EXPECT_EQ(runs_of(40, [](const Expr&, const Expr& w) { return w + 3; }), Runs{});
  EXPECT_EQ(runs_of(50, [](const Expr&, const Expr& w) { return min(max(w, Expr(0)), Expr(55)); }), Runs{});
  EXPECT_EQ(runs_of(112, [](const Expr&, const Expr& w) { return floordiv(w, Expr(2)); }), Runs{});
  // Where it bends depends on the row.
  EXPECT_EQ(runs_of(50, [](const Expr& h, const Expr& w) { return max(w, h + 3); }), Runs{});
}

}  // namespace
}  // namespace fettle
