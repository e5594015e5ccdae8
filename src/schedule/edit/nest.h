#pragma once
// Loops and the blocks beneath them, as the loop primitives see them.

#include <vector>

#include "schedule/edit/edit.h"
#include "schedule/schedule.h"

namespace fettle {

/// Every instance below runs only where `predicate` holds as well: it is and-ed into the predicates of the blocks
/// under `s` (those that no other block under `s` encloses).
Stmt add_predicate(const Stmt& s, const Expr& predicate);
/// Ranges of the integer parameters, of the iterators of the blocks around `node`, and of all loops around it.
Analyzer analyzer_at(const Func& func, const StmtNode* node);

/// E201 unless `loop` is serial and has no annotations.
Result<> check_plain(const Func& func, const ForNode& loop);

/// The loops, outermost first as they are nested in the program. With `adjacent`, each is the whole body of the one
/// before. Without it other loops may stand between, which the chain then holds too. E207.
Result<std::vector<const ForNode*>> loop_chain(const Schedule& s, const std::vector<LoopRef>& loops, bool adjacent);

/// The loop made parallel, vectorized or unrolled. E201; E221 where `constant` asks for a constant extent; E210 where
/// `independent` asks for iterations that may run in any order and at once, or lanes would write the same elements.
Result<Applied> with_loop_kind(const Schedule& s, LoopRef ref, ForKind kind, bool constant, bool independent);

}  // namespace fettle
