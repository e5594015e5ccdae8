#pragma once
// How often: averages over the points of the loops around a statement. What was asked once, of equal loops, is
// remembered, for many candidates ask the same.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "arith/int_eval.h"
#include "cost/loop_tree/loop_path.h"
#include "ir/expr.h"

namespace fettle {

/// Values of some expressions, and how many points have them, up to a common factor; those of most points first.
using ValueCounts = std::vector<std::pair<std::vector<int64_t>, double>>;

/// Of a path; `middle`: every variable in the middle of its range. Counts go over those loops that the expression and
/// the conditions on the way tie together; the others do not change it. They are exact up to some thousand points,
/// beyond that on a sample. Each thread has a memory of its own, of bounded size.
class LoopPoints {
 public:
  LoopPoints(const LoopPath& path, const IntEnv& middle) : path_(path), middle_(middle) {}

  /// The average of an extent; negative ones count as 0. 0 where no point is reached, as are all answers.
  double average_extent(const Expr& extent) const;
  /// Of all points, those at which it holds.
  double share(const Expr& condition) const;
  /// At most `most` different ones: what is beyond counts as the last of them.
  ValueCounts counts(const std::vector<Expr>& exprs, size_t most) const;

 private:
  bool is_reached(size_t size) const;
  bool has_point(size_t size) const;
  std::optional<int64_t> same_everywhere(const Expr& e, int64_t unknown) const;
  double average(const Expr& e, bool is_condition) const;

  const LoopPath& path_;
  const IntEnv& middle_;
};

}  // namespace fettle
