#include "schedule/primitives/get_loops.h"

#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_get_loops(const Schedule& s, const GetLoopsArgs& args) {
  FETTLE_TRY(const Stmt block, s.block(args.block));
  Applied applied;
  const std::vector<const ForNode*> loops = loops_around(s.func(), block.get());
  applied.outputs.reserve(loops.size());
  for (const ForNode* loop : loops) applied.outputs.emplace_back(loop->var);
  return applied;
}

}  // namespace

extern constinit const PrimitiveDef get_loops_def = define_query<GetLoopsArgs, apply_get_loops>("get_loops", 1);

Result<std::vector<LoopRef>> get_loops(Schedule& s, const GetLoopsArgs& args) {
  return run<std::vector<LoopRef>>(s, get_loops_def, args);
}

}  // namespace fettle
