#pragma once
// Bindings that are plain sums of loops, read as they stand: no analyzer, no simplification. What `split` leaves of
// constant loops is nearly always of this kind; for what is not, see affine_map.h.

#include <algorithm>
#include <optional>
#include <span>

#include "arith/region.h"
#include "ir/stmt.h"

namespace fettle {

/// A loop of constant bounds: var in [min, min + extent).
struct PlainLoop {
  const VarNode* var = nullptr;
  int64_t min = 0;
  int64_t extent = 1;
};
using PlainLoops = SmallVector<PlainLoop, 12>;

/// Adds a loop; false where its bounds are no constants (or too large to reckon with).
bool add_plain_loop(PlainLoops& loops, const VarNode* var, const Expr& min, const Expr& extent);

/// As add_plain_loop, of each loop.
bool add_plain_loops(PlainLoops& loops, std::span<const ForNode* const> nest);

/// A loop in a sum, by its index, or the lesser or greater of it and a constant.
struct PlainTerm {
  size_t loop = 0;
  int64_t coeff = 1;
  bool limited = false, is_min = false;  // min(loop, limit), or max(loop, limit)
  int64_t limit = 0;

  /// The term's value, without coeff, where the loop has this one.
  int64_t at(int64_t value) const {
    return !limited ? value : is_min ? std::min(value, limit) : std::max(value, limit);
  }
};
/// outer + constant + such terms; each loop stands in one of either kind at most.
struct PlainSum {
  LinearForm outer;  // free of the loops, its constant 0
  int64_t constant = 0;
  SmallVector<PlainTerm, 6> terms;
};
/// Adds scale * e, in which the variables of `iters` stand for their bindings. False where it is of another form; the
/// sum is of no use then.
bool add_plain(PlainSum& sum, const Expr& e, int64_t scale, std::span<const IterVar> iters,
               std::span<const PlainLoop> loops);

/// `e` as Analyzer::linear has it where the loops are bound, but for the order of terms. It is a sum of loops, of the
/// lesser or greater of a loop and a constant, and of other variables, of which nothing is known. Nothing for other
/// forms.
std::optional<LinearForm> plain_linear(const Expr& e, std::span<const PlainLoop> loops);

/// Loops in which those that the bindings of `iters` divide by constants are taken apart, and bindings that say so.
///   f in 32; vi = f // 4, vj = f % 4   →   f1 in 8, f0 in 4; vi = f1, vj = f0
struct UnfusedLoops {
  PlainLoops loops;
  std::vector<IterVar> iters;
  std::vector<Var> digits;  // holds the variables
};
/// Nothing where no loop is divided, or one in another way.
std::optional<UnfusedLoops> unfused_loops(std::span<const IterVar> iters, std::span<const PlainLoop> loops);

/// outer + [low, high]: an expression while some loops run. The hull of a sum of them, each taken by itself.
struct PlainRange {
  LinearForm outer;  // free of the loops, its constant 0
  int64_t low = 0, high = 0;
};
///   i0*32 + i1*4 + k + 3,  i1 in [0, 8), k in [0, 3)   →   i0*32 + [3, 33]
PlainRange plain_range(PlainSum sum, std::span<const PlainLoop> loops);
/// Whether `outer`, width elements from each of its points on, certainly holds all of `inner`; false where not known.
bool plain_covers(const PlainRange& outer, const PlainRange& inner);

/// One binding: base + a number in [0, extent).
struct PlainBinding {
  LinearForm base;     // free of the loops
  int64_t extent = 1;  // one more than the number's greatest value
  bool dense = true;   // it takes every value
};

/// Several bindings as numbers in mixed radix, under a predicate. Each loop is used by one binding at most.
///   i0*q + min(i0, r) + i1, predicate i1 < q + (i0 < r ? 1 : 0)   →   a number in [0, n*q + r)
///   i0*f + i1, predicate i0*f + i1 < e                            →   a number in [0, e)
/// Quotients and remainders of a loop by constants, as fusing leaves them, count as loops: f // 4 and f % 4.
struct PlainMap {
  SmallVector<PlainBinding, 4> bindings;
  /// No two points of the loops where the predicate holds give the same values.
  bool injective = false;
  /// The bindings take all combinations of their values: each is dense, and the whole predicate has been understood.
  bool dense = false;

  /// All points of the product of [0, extents[k]) are reached.
  bool covers(std::span<const Expr> extents) const;
  /// Every binding stays in [0, extents[k]).
  bool stays_in(std::span<const Expr> extents) const;
};
/// Nothing where a binding is of another kind. What is false may be true.
std::optional<PlainMap> plain_map(std::span<const Expr> bindings, std::span<const PlainLoop> loops,
                                  const Expr& predicate);

}  // namespace fettle
