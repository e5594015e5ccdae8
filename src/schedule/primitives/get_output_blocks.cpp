#include "schedule/primitives/get_output_blocks.h"

#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_get_output_blocks(const Schedule& s, const GetOutputBlocksArgs&) {
  Applied applied;
  for (const BlockNode* block : blocks_of(s.func().root())) {
    bool is_output = false;
    for (const Region& write : block->writes) {
      const Param* param = s.func().find_param(write.buffer.get());
      is_output |= param && param->kind == ParamKind::kOutput;
    }
    if (is_output) applied.outputs.emplace_back(block->name);
  }
  return applied;
}

}  // namespace

extern constinit const PrimitiveDef get_output_blocks_def =
    define_query<GetOutputBlocksArgs, apply_get_output_blocks>("get_output_blocks", 1);

Result<std::vector<BlockRef>> get_output_blocks(Schedule& s, const GetOutputBlocksArgs& args) {
  return run<std::vector<BlockRef>>(s, get_output_blocks_def, args);
}

}  // namespace fettle
