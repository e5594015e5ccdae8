#include "schedule/arguments.h"

#include "schedule/edit/steps.h"

namespace fettle {

Result<BlockAndLoop> block_and_loop(const Schedule& s, const BlockRef& block, const LoopRef& loop) {
  BlockAndLoop found;
  FETTLE_TRY(found.block_stmt, s.block(block));
  FETTLE_TRY(found.loop_stmt, s.loop(loop));
  found.block = found.block_stmt.as<BlockNode>();
  found.loop = found.loop_stmt.as<ForNode>();
  found.scope = enclosing_block(s.func(), found.block);
  return found;
}

Result<> check_complete(ErrorCode code, const Func& func, const BlockNode& block, const BlockNode& scope,
                        bool reduction_too) {
  const std::string why = why_not_complete(block, scope, reduction_too);
  if (why.empty()) return {};
  return refused(code, func, &block, "block {}: {}", block.name, why);
}

Result<Buffer> accessed_buffer(const Func& func, const BlockNode& block, const std::string& type, int64_t index) {
  if (type == "write") return write_buffer(block, index);
  if (type == "read") return read_buffer(block, index);
  return refused(ErrorCode::E241, func, &block, "buffer_index_type \"{}\"", type);
}

Result<Applied> other_blocks(const Schedule& s, const BlockRef& ref,
                             FunctionRef<bool(const BlockNode& block, const BlockNode& other)> wanted) {
  FETTLE_TRY(const Stmt stmt, s.block(ref));
  const auto& block = *stmt.as<BlockNode>();
  Applied applied;
  const BlockNode* scope = enclosing_block(s.func(), &block);
  if (!scope) return applied;
  for (const BlockNode* other : blocks_of(*scope))
    if (other != &block && wanted(block, *other)) applied.outputs.emplace_back(other->name);
  return applied;
}

}  // namespace fettle
