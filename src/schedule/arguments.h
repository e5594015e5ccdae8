#pragma once
// The checks with which primitives begin. They look their arguments up, and test what most primitives require.

#include "base/function_ref.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitive.h"
#include "schedule/schedule.h"

namespace fettle {

/// A block and a loop of a schedule, and the block around the former; kept alive by the statements.
struct BlockAndLoop {
  Stmt block_stmt, loop_stmt;
  const BlockNode* block = nullptr;
  const ForNode* loop = nullptr;
  const BlockNode* scope = nullptr;
};
Result<BlockAndLoop> block_and_loop(const Schedule& s, const BlockRef& block, const LoopRef& loop);

/// Whether the block, which has a scope, is complete or, where `reduction_too`, a reduction (why_not_complete). `code`
Result<> check_complete(ErrorCode code, const Func& func, const BlockNode& block, const BlockNode& scope,
                        bool reduction_too);

/// The buffer with this index among the block's reads or writes, as `type` says. E220 no such index · E241 neither
Result<Buffer> accessed_buffer(const Func& func, const BlockNode& block, const std::string& type, int64_t index);

/// The names of the other blocks of the block's scope that are `wanted`; none for the root.
Result<Applied> other_blocks(const Schedule& s, const BlockRef& block,
                             FunctionRef<bool(const BlockNode& block, const BlockNode& other)> wanted);

}  // namespace fettle
