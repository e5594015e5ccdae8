#pragma once
// Moving a block under a loop: what compute_at and reverse_compute_at share.

#include <vector>

#include "ir/func.h"
#include "schedule/footprint.h"
#include "schedule/schedule.h"

namespace fettle {

/// A block to be moved and the loop that it goes under, both directly within `scope`.
struct Move {
  const BlockNode* block;
  const ForNode* loop;
  const BlockNode* scope;
  std::vector<const BlockNode*> order;   // blocks of the scope, in program order
  std::vector<const BlockNode*> inside;  // those under the loop
  /// Position in `order`.
  size_t index(const BlockNode* b) const;
  bool is_inside(const BlockNode* b) const;
};

/// Looks both up and checks what every move needs. E201 the loop is vectorized · E206 · E207 the loop is in another block, or
/// encloses the block already · E211 the block is neither complete nor a reduction, or its predicate does more than
/// bound its iterators.
Result<Move> plan_move(const Schedule& s, const BlockRef& block, const LoopRef& loop);

/// Where an iterator goes: a binding in variables that are there, or a loop of its own over `range`.
struct IterPlace {
  Expr binding;   // null: by a loop over `range`
  Range range;
};

/// The block in a nest of its own: `loops` outermost, then one loop for each iterator that has none, in the order of the
/// iterators. Conditions that keep the iterators inside their extents join `predicate` where they are not proven.
Stmt nest_around(const BlockNode& block, std::vector<std::pair<Var, Range>> loops, const std::vector<IterPlace>& places,
                 Expr predicate, bool preserve_unit_loops, Analyzer& analyzer);

/// The function without the block's old nest, and with `nest` inside the body of the loop: before `before`'s part of it, or
/// at the end where `before` is null.
Func move_nest(const Func& func, const Move& move, const Stmt& nest, const BlockNode* before);

/// The loop of that variable below `s`, or null.
const ForNode* find_loop(const Stmt& s, const VarNode* var);

/// Solves pattern == target for the variables `free` of `pattern`, structurally; solutions join `solved`, and must agree
/// with what is there. False where the shapes differ.
bool unify(const Expr& pattern, const Expr& target, const std::vector<const VarNode*>& free, VarMap& solved);
bool unify(const std::vector<Expr>& pattern, const std::vector<Expr>& target, const std::vector<const VarNode*>& free,
           VarMap& solved);
/// The variables of a block's iterators.
std::vector<const VarNode*> iter_vars(const BlockNode& block);

}  // namespace fettle
