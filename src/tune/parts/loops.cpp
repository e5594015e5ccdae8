#include "tune/parts/loops.h"

#include "ir/visit.h"
#include "schedule/primitives/get_loops.h"

namespace fettle {

Result<const BlockNode*> block_node(const Schedule& s, BlockRef block) {
  FETTLE_TRY(const Stmt stmt, s.block(block));
  return stmt.as<BlockNode>();  // owned by the schedule's program
}

Result<LoopsByKind> loops_by_kind(Schedule& s, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {.block = block}));
  LoopsByKind kinds;
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Var var, s.loop_var(loop));
    const bool reduces = std::ranges::any_of(node->iters, [&](const IterVar& iter) {
      return iter.kind == IterKind::kReduce && uses_var(iter.binding, var.get());
    });
    (reduces ? kinds.reduction : kinds.spatial).push_back(loop);
  }
  return kinds;
}

Result<Extent> extent_of_loop(const Schedule& s, LoopRef loop) {
  FETTLE_TRY(const Stmt stmt, s.loop(loop));
  return extent_of(stmt.as<ForNode>()->extent, typical_values(s.func()));
}

Result<int64_t> loop_extent(const Schedule& s, LoopRef loop) {
  FETTLE_TRY(const Stmt stmt, s.loop(loop));
  const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
  return extent ? *extent : int64_t{0};
}

}  // namespace fettle
