#include "tune/parts/loops.h"

namespace fettle {

Result<const BlockNode*> block_node(const Schedule& s, BlockRef block) {
  FETTLE_TRY(const Stmt stmt, s.block(block));
  return stmt.as<BlockNode>();  // owned by the schedule's program
}

Result<int64_t> loop_extent(const Schedule& s, LoopRef loop) {
  FETTLE_TRY(const Stmt stmt, s.loop(loop));
  const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
  return extent ? *extent : int64_t{0};
}

}  // namespace fettle
