#include "schedule/primitives/tile.h"

#include "schedule/edit/steps.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"

namespace fettle {
namespace {

Result<Applied> apply_tile(const Schedule& s, const TileArgs& args) {
  if (args.loops.empty() || args.loops.size() != args.factors.size())
    return fail(ErrorCode::E202,
                std::to_string(args.loops.size()) + " loops and " + std::to_string(args.factors.size()) + " factors");
  Schedule work = s;
  std::vector<LoopRef> tiles, within;
  for (size_t i = 0; i < args.loops.size(); ++i) {
    FETTLE_TRY(const std::vector<LoopRef> parts, split(work, {args.loops[i], {kInfer, args.factors[i]}, args.tail}));
    tiles.push_back(parts[0]);
    within.push_back(parts[1]);
  }
  tiles.insert(tiles.end(), within.begin(), within.end());
  FETTLE_TRY_VOID(reorder(work, {tiles}));
  Applied applied{work.func(), {}};
  for (const LoopRef& loop : tiles) {
    FETTLE_TRY(const Var var, work.loop_var(loop));
    applied.outputs.emplace_back(var);
  }
  return applied;
}

}  // namespace

extern constinit const PrimitiveDef tile_def = define_primitive<TileArgs, apply_tile>("tile", 1);

Result<std::vector<LoopRef>> tile(Schedule& s, const TileArgs& args) {
  return run<std::vector<LoopRef>>(s, tile_def, args);
}

}  // namespace fettle
