#include "schedule/primitives/get_child_blocks.h"

#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_get_child_blocks(const Schedule& s, const GetChildBlocksArgs& args) {
  FETTLE_TRY(const Stmt parent, resolve(s, args.parent));
  const auto* loop = parent.as<ForNode>();
  Applied applied;
  for (const BlockNode* block : loop ? blocks_under(loop->body) : blocks_of(*parent.as<BlockNode>()))
    applied.outputs.emplace_back(block->name);
  return applied;
}

}  // namespace

extern constinit const PrimitiveDef get_child_blocks_def =
    define_query<GetChildBlocksArgs, apply_get_child_blocks>("get_child_blocks", 1);

Result<std::vector<BlockRef>> get_child_blocks(Schedule& s, const GetChildBlocksArgs& args) {
  return run<std::vector<BlockRef>>(s, get_child_blocks_def, args);
}

}  // namespace fettle
