#pragma once
// Vectors in the bodies of innermost loops, and how they move.

#include <cstdint>
#include <optional>
#include <vector>

#include "arith/linear.h"
#include "ir/stmt.h"

namespace fettle {

/// The lanes of an access in a loop: elements base + lane * stride. The base moves by `step` with each iteration.
struct LaneRun {
  LinearForm base;
  int64_t stride = 0, step = 0;
  int lanes = 1;
};

/// Those of a vector's only index. Nothing where stride or step are no constants.
std::optional<LaneRun> lane_run(const std::vector<Expr>& indices, const Var& loop);

/// How many elements each lane of `a` lies behind that of `b`. Nothing where that is not known, or differs by lane.
std::optional<int64_t> elements_between(const LaneRun& a, const LaneRun& b);

/// The stores without masks that a body consists of, in order. Empty: there is anything else in it.
std::vector<const StoreNode*> plain_stores(const Stmt& body);

}  // namespace fettle
