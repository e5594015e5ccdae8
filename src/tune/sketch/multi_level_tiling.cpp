#include "tune/sketch/multi_level_tiling.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/visit.h"
#include "schedule/edit.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/sample_perfect_tile.h"
#include "schedule/primitives/split.h"

namespace fettle {
namespace {

// 'S' or 'R': what the loop runs over; 0 where it is both or neither.
char kind_of_loop(const BlockNode& block, const VarNode* var) {
  bool spatial = false, reduce = false, other = false;
  for (const IterVar& iter : block.iters) {
    if (!uses_var(iter.binding, var)) continue;
    spatial |= iter.kind == IterKind::kSpatial;
    reduce |= iter.kind == IterKind::kReduce;
    other |= iter.kind != IterKind::kSpatial && iter.kind != IterKind::kReduce;
  }
  if (other || (spatial && reduce)) return 0;
  return reduce ? 'R' : 'S';  // a unit loop that nothing uses counts as spatial
}

tl::unexpected<Diagnostic> does_not_fit(const Schedule& s, const StmtNode* place, std::string why) {
  return fail_at(ErrorCode::E235, s.func(), place, std::move(why), "MultiLevelTiling");
}

}  // namespace

MultiLevelTiling tiling_for_threads() {
  MultiLevelTiling tiling("SSSRRSRS");
  tiling.tile_binds = {"blockIdx.x", "vthread.x", "threadIdx.x"};
  return tiling;
}

Result<MultiLevelTiling::Levels> MultiLevelTiling::apply(Schedule& s, BlockRef block) const {
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto& node = *stmt.as<BlockNode>();
  const bool letters = std::ranges::all_of(structure, [](char c) { return c == 'S' || c == 'R'; });
  if (structure.empty() || !letters)
    return does_not_fit(s, &node, fmt::format("\"{}\" is not made of S and R", structure));
  if (tile_binds.size() > structure.size() ||
      std::any_of(structure.begin(), structure.begin() + static_cast<std::ptrdiff_t>(tile_binds.size()),
                  [](char c) { return c != 'S'; }))
    return does_not_fit(s, &node, fmt::format("{} thread axes for \"{}\"", tile_binds.size(), structure));

  Schedule work = s;
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(work, {block}));
  if (loops.empty()) return does_not_fit(s, &node, fmt::format("block {} has no loops", node.name));
  Levels levels(structure.size());
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Var var, work.loop_var(loop));
    const char kind = kind_of_loop(node, var.get());
    if (!kind)
      return does_not_fit(s, &node, fmt::format("loop {} is neither spatial nor one of the reduction", var->name));
    std::vector<size_t> at;
    for (size_t level = 0; level < structure.size(); ++level)
      if (structure[level] == kind) at.push_back(level);
    if (at.empty()) return does_not_fit(s, &node, fmt::format("\"{}\" has no level for loop {}", structure, var->name));
    if (at.size() == 1) {
      levels[at[0]].push_back(loop);
      continue;
    }
    FETTLE_TRY(const std::vector<ValueRef> sizes, sample_perfect_tile(work, {.loop = loop,
                                                                             .n = static_cast<int64_t>(at.size()),
                                                                             .max_innermost = max_innermost,
                                                                             .name = var->name}));
    FETTLE_TRY(const std::vector<LoopRef> parts, split(work, {.loop = loop, .factors = {sizes.begin(), sizes.end()}}));
    for (size_t k = 0; k < at.size(); ++k) levels[at[k]].push_back(parts[k]);
  }
  std::vector<LoopRef> order;
  for (const std::vector<LoopRef>& level : levels) order.insert(order.end(), level.begin(), level.end());
  FETTLE_TRY_VOID(reorder(work, {.loops = order}));
  for (size_t level = 0; level < tile_binds.size(); ++level) {
    if (levels[level].empty()) continue;
    FETTLE_TRY(const LoopRef fused, fuse(work, {.loops = levels[level]}));
    FETTLE_TRY_VOID(bind(work, {.loop = fused, .thread_axis = tile_binds[level]}));
    levels[level] = {fused};
  }
  s = std::move(work);
  return levels;
}

}  // namespace fettle
