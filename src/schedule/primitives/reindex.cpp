#include "schedule/primitives/reindex.h"

#include "schedule/arguments.h"
#include "schedule/edit/reindexing.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_reindex(const Schedule& s, const ReindexArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, accessed_buffer(s.func(), block, args.buffer_index_type, args.buffer_index));
  return reindexed(s, block, {buffer, args.buffer_index_type == "write", nullptr, buffer->scope, "reindex"});
}

}  // namespace

extern constinit const PrimitiveDef reindex_def = define_primitive<ReindexArgs, apply_reindex>("reindex", 1);

Result<BlockRef> reindex(Schedule& s, const ReindexArgs& args) { return run<BlockRef>(s, reindex_def, args); }

}  // namespace fettle
