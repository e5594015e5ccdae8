#include "schedule/primitives/reindex_cache_read.h"

#include "schedule/edit/reindexing.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_reindex_cache_read(const Schedule& s, const ReindexCacheReadArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, read_buffer(block, args.read_index));
  return reindexed(s, block,
                   {.buffer = buffer,
                    .map = &args.index_map,
                    .scope = args.scope,
                    .suffix = args.scope,
                    .place = block.reads[static_cast<size_t>(args.read_index)].ranges});
}

}  // namespace

extern constinit const PrimitiveDef reindex_cache_read_def =
    define_primitive<ReindexCacheReadArgs, apply_reindex_cache_read>("reindex_cache_read", 1);

Result<BlockRef> reindex_cache_read(Schedule& s, const ReindexCacheReadArgs& args) {
  return run<BlockRef>(s, reindex_cache_read_def, args);
}

}  // namespace fettle
