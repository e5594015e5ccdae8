#include "schedule/primitives/get_consumers.h"

#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

Result<Applied> apply_get_consumers(const Schedule& s, const GetConsumersArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const auto& block = *stmt.as<BlockNode>();
  Applied applied;
  const BlockNode* scope = enclosing_block(s.func(), &block);
  if (!scope) return applied;
  for (const BlockNode* other : blocks_of(*scope)) {
    bool consumes = false;
    for (const Region& write : block.writes) consumes |= read_region(*other, write.buffer.get()) != nullptr;
    if (consumes && other != &block) applied.outputs.emplace_back(other->name);
  }
  return applied;
}

}  // namespace

constinit const PrimitiveDef get_consumers_def =
    define_query<GetConsumersArgs, apply_get_consumers>("get_consumers", 1);

Result<std::vector<BlockRef>> get_consumers(Schedule& s, const GetConsumersArgs& args) {
  FETTLE_TRY(const int step, s.step(get_consumers_def, args));
  return s.blocks_of(step);
}

}  // namespace fettle
