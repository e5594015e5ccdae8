#include "schedule/primitives/read_at.h"

#include "schedule/edit/steps.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"

namespace fettle {
namespace {

Result<Applied> apply_read_at(const Schedule& s, const ReadAtArgs& args) {
  FETTLE_TRY_VOID(s.loop(args.loop));
  Schedule work = s;
  FETTLE_TRY(const BlockRef copy, cache_read(work, {args.block, args.read_index, args.scope, {}}));
  FETTLE_TRY_VOID(compute_at(work, {copy, args.loop}));
  FETTLE_TRY(const Stmt block, work.block(copy));
  return Applied{work.func(), {block.as<BlockNode>()->name}};
}

}  // namespace

extern constinit const PrimitiveDef read_at_def = define_primitive<ReadAtArgs, apply_read_at>("read_at", 1);

Result<BlockRef> read_at(Schedule& s, const ReadAtArgs& args) { return run<BlockRef>(s, read_at_def, args); }

}  // namespace fettle
