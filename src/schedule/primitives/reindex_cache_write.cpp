#include "schedule/primitives/reindex_cache_write.h"

#include "schedule/edit/reindexing.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_reindex_cache_write(const Schedule& s, const ReindexCacheWriteArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, write_buffer(block, args.write_index));
  return reindexed(s, block, {buffer, true, &args.index_map, args.scope, args.scope});
}

}  // namespace

extern constinit const PrimitiveDef reindex_cache_write_def =
    define_primitive<ReindexCacheWriteArgs, apply_reindex_cache_write>("reindex_cache_write", 1);

Result<BlockRef> reindex_cache_write(Schedule& s, const ReindexCacheWriteArgs& args) {
  return run<BlockRef>(s, reindex_cache_write_def, args);
}

}  // namespace fettle
