#pragma once
// Computes the part of an index space that the loops below a point touch. compute_at, caching and decomposition use it.

#include <optional>
#include <vector>

#include "ir/func.h"
#include "schedule/edit/steps.h"

namespace fettle {

/// Bounds of index expressions while `inner` loops run, as ranges in the variables of the outer loops. Extents never
/// use loop variables: they are constants, or expressions in the integer parameters, so that a nest over them can be
/// unrolled and vectorized. Predicates are not looked at: a range is a hull.
class Footprint {
 public:
  /// Binds the loops in an analyzer of its own; `outer` enclose `inner`, both outermost first.
  Footprint(const Func& func, std::vector<const ForNode*> outer, std::vector<const ForNode*> inner);

  Analyzer& analyzer() { return analyzer_; }
  bool is_inner(const Expr& e) const { return uses_any(e, inner_); }

  /// The values of `e`: nothing where no bound of that form is known.
  std::optional<Range> of(const Expr& e);
  /// The values of e, …, e + extent - 1.
  std::optional<Range> of(const Range& range);

  /// e = outer part + inner part, where the inner part is a sum of inner loop variables that takes every value from
  /// `inner_min` to `inner_min + extent - 1` once (mixed radix). Nothing if `e` has another form.
  struct Split {
    LinearForm outer, inner;
    int64_t inner_min = 0;
    int64_t extent = 1;
  };
  std::optional<Split> split(const Expr& e);

 private:
  std::optional<Range> of_form(const LinearForm& form);
  std::optional<Range> of_term(const Expr& term);

  Analyzer analyzer_;
  std::vector<const ForNode*> outer_, inner_;
};

/// The instances of a block that run below a loop, as a nest of its own. `loops` (serial, new variables, outermost
/// first) stand around instances with these `bindings`, one for each spatial iterator of the block in order, where
/// `predicate` holds. Reduction loops are left out, and so are the conditions on them.
struct IterationTile {
  std::vector<const IterVar*> iters;
  std::vector<Expr> bindings;
  std::vector<std::pair<Var, Range>> loops;
  Expr predicate;
  bool rectangular = false;  // one loop for each iterator, in their order
};

/// Where each binding is an outer part plus a dense range of its own, the tile has one loop of constant extent for each
/// spatial iterator. Otherwise (a fused loop that crosses rows, say) it repeats the loops of the block.
IterationTile tile_of(const Func& func, const BlockNode& block, const std::vector<const ForNode*>& outer,
                      const std::vector<const ForNode*>& inner);

/// Whether a condition asks for loops on which the block's spatial iterators (places), or its others (steps), depend.
struct Asked {
  bool places = false, steps = false;
};
Asked asked_by(const Expr& condition, const BlockNode& block);

/// Those of `loops` that take the block from step to step. The bindings of its reduce, scan or opaque iterators depend
/// on them, or a condition on the steps alone does. (Where k = k0*8 + k1 < 1 became k = k1, k0 tells whether there is a
/// step.)
std::vector<const ForNode*> carried_loops(const BlockNode& block, const std::vector<const ForNode*>& loops);

/// True if the predicate of `block` says no more than that its iterators stay inside their extents, where `given` holds
/// (null: always).
bool predicate_only_bounds(const Func& func, const BlockNode& block, const Expr& given = nullptr);

/// The nest `loops` around `body`.
Stmt wrap_loops(const std::vector<std::pair<Var, Range>>& loops, Stmt body);

/// Conditions 0 <= binding < extent for those iterators for which they cannot be proven.
Expr bounds_predicate(Analyzer& analyzer, const Expr& binding, const Expr& extent);

}  // namespace fettle
