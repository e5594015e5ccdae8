#include "schedule/primitives/get_block.h"

#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_get_block(const Schedule& s, const GetBlockArgs& args) {
  if (!find_block(s.func()->body, args.name)) return fail(ErrorCode::E206, "there is no block named " + args.name);
  return Applied{nullptr, {args.name}};
}

}  // namespace

constinit const PrimitiveDef get_block_def = define_query<GetBlockArgs, apply_get_block>("get_block", 1);

Result<BlockRef> get_block(Schedule& s, const GetBlockArgs& args) { return run<BlockRef>(s, get_block_def, args); }

}  // namespace fettle
