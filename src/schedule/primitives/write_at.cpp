#include "schedule/primitives/write_at.h"

#include "schedule/edit/steps.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/reverse_compute_at.h"

namespace fettle {
namespace {

Result<Applied> apply_write_at(const Schedule& s, const WriteAtArgs& args) {
  FETTLE_TRY_VOID(s.loop(args.loop));
  Schedule work = s;
  FETTLE_TRY(const BlockRef copy, cache_write(work, {args.block, args.write_index, args.scope}));
  FETTLE_TRY_VOID(reverse_compute_at(work, {copy, args.loop}));
  FETTLE_TRY(const Stmt block, work.block(copy));
  return Applied{work.func(), {block.as<BlockNode>()->name}};
}

}  // namespace

extern constinit const PrimitiveDef write_at_def = define_primitive<WriteAtArgs, apply_write_at>("write_at", 1);

Result<BlockRef> write_at(Schedule& s, const WriteAtArgs& args) { return run<BlockRef>(s, write_at_def, args); }

}  // namespace fettle
