#include "schedule/primitives/get_producers.h"

#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

Result<Applied> apply_get_producers(const Schedule& s, const GetProducersArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const auto& block = *stmt.as<BlockNode>();
  Applied applied;
  const BlockNode* scope = enclosing_block(s.func(), &block);
  if (!scope) return applied;
  for (const BlockNode* other : blocks_of(*scope)) {
    bool produces = false;
    for (const Region& read : block.reads) produces |= write_region(*other, read.buffer.get()) != nullptr;
    if (produces && other != &block) applied.outputs.emplace_back(other->name);
  }
  return applied;
}

}  // namespace

constinit const PrimitiveDef get_producers_def =
    define_query<GetProducersArgs, apply_get_producers>("get_producers", 1);

Result<std::vector<BlockRef>> get_producers(Schedule& s, const GetProducersArgs& args) {
  FETTLE_TRY(const int step, s.step(get_producers_def, args));
  return s.blocks_of(step);
}

}  // namespace fettle
