#pragma once
// How often: averages over the points of the loops around a statement. What was asked once, of equal loops, is
// remembered, for many candidates ask the same.

#include <cstdint>
#include <utility>
#include <vector>

#include "arith/int_eval.h"
#include "ir/expr.h"

namespace fettle {

/// What binds a variable on the way to a statement, or what is asked there.
struct LoopBinding {
  const VarNode* var = nullptr;  // null: a condition
  Expr min, extent;              // of a loop
  Expr value;                    // of a let; of a condition
  bool negated = false;
};

/// Values of some expressions, and how many points have them; those of most points first.
using ValueCounts = std::vector<std::pair<std::vector<int64_t>, double>>;

/// Of a path, outermost first; `middle`: every variable in the middle of its range. Counted exactly up to some thousand
/// points, beyond that on a sample. Each thread has a memory of its own, of bounded size.
class LoopPoints {
 public:
  LoopPoints(const std::vector<LoopBinding>& path, const IntEnv& middle) : path_(path), middle_(middle) {}

  /// The average of an extent; negative ones count as 0.
  double average_extent(const Expr& extent) const;
  /// Of all points, those at which it holds.
  double share(const Expr& condition) const;
  /// At most `most` different ones: what is beyond counts as the last of them.
  ValueCounts counts(const std::vector<Expr>& exprs, size_t most) const;

 private:
  const std::vector<LoopBinding>& path_;
  const IntEnv& middle_;
};

}  // namespace fettle
