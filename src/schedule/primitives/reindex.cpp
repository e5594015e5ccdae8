#include "schedule/primitives/reindex.h"

#include "schedule/edit/edit.h"
#include "schedule/edit/reindexing.h"

namespace fettle {
namespace {

Result<Applied> apply_reindex(const Schedule& s, const ReindexArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const auto& block = *stmt.as<BlockNode>();
  const bool write = args.buffer_index_type == "write";
  if (!write && args.buffer_index_type != "read")
    return fail_at(ErrorCode::E241, s.func(), &block, "buffer_index_type \"" + args.buffer_index_type + "\"", {});
  FETTLE_TRY(const Buffer buffer,
             write ? write_buffer(block, args.buffer_index) : read_buffer(block, args.buffer_index));
  return reindexed(s, block, {buffer, write, nullptr, buffer->scope, "reindex"});
}

}  // namespace

constinit const PrimitiveDef reindex_def = define_primitive<ReindexArgs, apply_reindex>("reindex", 1);

Result<BlockRef> reindex(Schedule& s, const ReindexArgs& args) {
  FETTLE_TRY(const int step, s.step(reindex_def, args));
  return s.blocks_of(step).front();
}

}  // namespace fettle
