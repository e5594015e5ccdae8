#pragma once
// Moves a block under a loop. compute_at and reverse_compute_at share it.

#include <vector>

#include "ir/func.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/schedule.h"

namespace fettle {

/// A block to be moved and the loop that it goes under, both directly within `scope`.
struct Move {
  const BlockNode* block;
  const ForNode* loop;
  const BlockNode* scope;
  std::vector<const BlockNode*> order;   // blocks of the scope, in program order
  std::vector<const BlockNode*> inside;  // those under the loop
  bool alone = false;                    // below the block's own outermost loop
  /// Position in `order`.
  size_t index(const BlockNode* b) const;
  bool is_inside(const BlockNode* b) const;
};

/// Looks both up and checks what every move needs. E201 the loop is vectorized · E206 · E207 the loop is in another
/// block, or encloses the block already · E211 the block is neither complete nor a reduction, or its predicate does
/// more than bound its iterators.
Result<Move> plan_move(const Schedule& s, const BlockRef& block, const LoopRef& loop);

/// Checks a loop around both places that computes some of what the block reads. Each of its iterations must run the
/// instances of the block that it runs now, and no others. What others read may not be computed yet, or be computed
/// anew. `ranges`: what the iterators run over where the block goes; E211.
Result<> check_keeps_steps(const Schedule& s, const Move& move, const std::vector<Range>& ranges);

using LoopList = std::vector<std::pair<Var, Range>>;

/// Where an iterator goes.
struct IterPlace {
  Expr binding;
  bool in_bounds = false;  // no condition is needed to keep it inside its extent
};

/// A binding over `range`: by a new loop of that extent, which joins `loops`, or without one where the extent is 1 and
/// `preserve_unit_loops` is not set.
IterPlace place_over(const Range& range, bool preserve_unit_loops, LoopList& loops);

/// The block within `loops`, its iterators bound as `places` say. Conditions that keep them inside their extents join
/// `predicate` where they are not proven.
Stmt nest_around(const BlockNode& block, const LoopList& loops, const std::vector<IterPlace>& places, Expr predicate,
                 Analyzer& analyzer);

/// The function without the block's old nest, and with `nest` inside the body of the loop: before `before`'s part of
/// it, or at the end where `before` is null.
Func move_nest(const Func& func, const Move& move, const Stmt& nest, const BlockNode* before);

/// The loop of that variable below `s`, or null.
const ForNode* find_loop(const Stmt& s, const VarNode* var);

/// Solves pattern == target for the variables `free` of `pattern`, structurally; solutions join `solved`, and must
/// agree with what is there. False where the shapes differ.
bool unify(const Expr& pattern, const Expr& target, const std::vector<const VarNode*>& free, VarMap& solved);
bool unify(const std::vector<Expr>& pattern, const std::vector<Expr>& target, const std::vector<const VarNode*>& free,
           VarMap& solved);
/// The variables of iterators.
std::vector<const VarNode*> iter_vars(const std::vector<IterVar>& iters);
/// An index tuple in a block's iterators, simplified by their ranges: those of extent 1 are 0 then.
std::vector<Expr> canonical_indices(const std::vector<Expr>& indices, const std::vector<IterVar>& iters);

}  // namespace fettle
