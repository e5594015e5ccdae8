#include "tune/sketch/register_sums.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/edit.h"
#include "schedule/primitives/cache_inplace.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tune/sketch/filtered_convolution.h"
#include "tune/space/rule.h"

namespace fettle {
namespace {

/// One loop around a reduction.
struct Level {
  LoopRef loop;
  ForKind kind = ForKind::kSerial;
  int64_t extent = 0;  // 0: not constant
  bool reduces = false, other = false;
  bool counts() const { return extent != 1; }
};

Result<std::vector<Level>> levels_of(Schedule& s, BlockRef block) {
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  FETTLE_TRY(const Stmt stmt, s.block(block));
  std::vector<Level> levels;
  for (const LoopRef& ref : loops) {
    FETTLE_TRY(const Stmt held, s.loop(ref));
    const auto& loop = *held.as<ForNode>();
    Level level{.loop = ref, .kind = loop.loop_kind};
    if (const int64_t* extent = as_int(loop.extent)) level.extent = *extent;
    for (const IterVar& iter : stmt.as<BlockNode>()->iters) {
      if (!uses_var(iter.binding, loop.var.get())) continue;
      level.reduces |= iter.kind == IterKind::kReduce;
      level.other |= iter.kind != IterKind::kReduce;
    }
    levels.push_back(level);
  }
  return levels;
}

/// The place of the outermost loop of the reduction from which on its sums fit `registers`; nothing where there is none.
std::optional<size_t> first_level_in_registers(const std::vector<Level>& levels, int64_t registers, int64_t lanes) {
  for (size_t first = 0; first < levels.size(); ++first) {
    if (!levels[first].reduces || !levels[first].counts()) continue;
    int64_t tile = 1;
    bool fits = true, in_tile = false;
    for (size_t i = first; i < levels.size() && fits; ++i) {
      const Level& level = levels[i];
      if (!level.counts()) continue;
      const bool lane = level.kind == ForKind::kVectorized;
      if (level.reduces) {
        fits = !level.other && !in_tile && !lane;
        continue;
      }
      in_tile = true;
      fits = level.extent > 0 && (lane || level.kind == ForKind::kSerial || level.kind == ForKind::kUnrolled);
      tile *= lane ? (level.extent + lanes - 1) / lanes : std::min(level.extent, registers + 1);
      fits = fits && tile <= registers;
    }
    if (fits) return first;
  }
  return std::nullopt;
}

/// vectorize_copy on a plain schedule.
Result<> vectorize_tile(Schedule& s, BlockRef block, size_t first, int64_t lanes, bool unroll_rows) {
  RuleContext ctx{.schedule = std::move(s)};
  const Result<> done = vectorize_copy(ctx, block, first, lanes, unroll_rows);
  s = std::move(ctx.schedule);
  return done;
}

Result<> hold(Schedule& s, const Target& target, const std::string& name) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const int64_t lanes, lanes_of(s, block));
  FETTLE_TRY(const std::vector<Level> levels, levels_of(s, block));
  const auto first = first_level_in_registers(levels, target.vector_registers, lanes);
  if (!first || *first == 0) return {};
  FETTLE_TRY(const std::vector<BlockRef> copies, cache_inplace(s, {.block = block, .loop = levels[*first - 1].loop}));
  for (size_t i = *first; i < levels.size(); ++i)
    if (!levels[i].reduces && levels[i].kind == ForKind::kSerial && levels[i].counts())
      FETTLE_TRY_VOID(unroll(s, {.loop = levels[i].loop}));
  // As the sums are accumulated: runs of fewer lanes, or one by one.
  int64_t run = 1;
  for (const Level& level : levels)
    if (level.kind == ForKind::kVectorized) run = level.extent;
  for (const BlockRef& copy : copies) {
    if (run > 1) {
      FETTLE_TRY_VOID(vectorize_tile(s, copy, *first, std::min(run, lanes), true));
      continue;
    }
    FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {copy}));
    for (size_t i = *first; i < loops.size(); ++i) FETTLE_TRY_VOID(unroll(s, {.loop = loops[i]}));
  }
  return {};
}

}  // namespace

Result<int64_t> lanes_of(const Schedule& s, BlockRef block) {
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto& writes = stmt.as<BlockNode>()->writes;
  const int bytes = writes.empty() ? 4 : writes[0].buffer->dtype.element_bytes();
  return int64_t{std::max(1, s.target() ? s.target()->vector_lanes(bytes) : 1)};
}

Result<> vectorize_in_registers(Schedule& s, LoopRef loop, int64_t lanes) {
  FETTLE_TRY(const Stmt stmt, s.loop(loop));
  const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
  if (!extent || *extent <= lanes) return vectorize(s, {.loop = loop});
  const Tail tail = *extent % lanes == 0 ? Tail::kExact : Tail::kMask;
  FETTLE_TRY(const std::vector<LoopRef> parts, split(s, {.loop = loop, .factors = {kInfer, lanes}, .tail = tail}));
  FETTLE_TRY_VOID(unroll(s, {.loop = parts[0]}));
  return vectorize(s, {.loop = parts[1]});
}

Result<> vectorize_companions(Schedule& s, BlockRef block) {
  FETTLE_TRY(const std::vector<LoopRef> around, get_loops(s, {block}));
  FETTLE_TRY(const Stmt main, s.block(block));
  FETTLE_TRY(const Stmt nest, s.loop(around.front()));
  std::vector<std::string> names;
  for (const BlockNode* other : blocks_under(nest))
    if (other->name != main.as<BlockNode>()->name) names.push_back(other->name);
  for (const std::string& name : names) {
    const BlockNode* node = find_block(s.func()->body, name);
    const bool plain = !node->init && std::ranges::all_of(node->iters, [](const IterVar& iter) {
      return iter.kind == IterKind::kSpatial;
    });
    if (!plain || node->writes.size() != 1) continue;
    // Its own loops: those with nothing else inside.
    const auto loops = loops_around(s.func(), node);
    size_t first = loops.size();
    while (first > 0 && blocks_under(Stmt(Ref<const StmtNode>(loops[first - 1]))).size() == 1) --first;
    if (first == loops.size()) continue;
    const bool serial = std::all_of(loops.begin() + static_cast<std::ptrdiff_t>(first), loops.end(),
                                    [](const ForNode* loop) { return loop->loop_kind == ForKind::kSerial; });
    if (!serial) continue;
    Schedule changed = s;
    FETTLE_TRY(const BlockRef other, get_block(changed, {.name = name}));
    FETTLE_TRY(const int64_t lanes, lanes_of(changed, other));
    if (vectorize_tile(changed, other, first, lanes, false)) s = std::move(changed);
  }
  return {};
}

Result<> accumulate_in_registers(Schedule& s, const Target& target) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(s.func().root()))
    if (block->init && !is_scheduled(*block) && block->writes.size() == 1 && is_reduction(*block, s.func().root()))
      names.push_back(block->name);
  for (const std::string& name : names) {
    Schedule held = s;
    if (hold(held, target, name)) s = std::move(held);
  }
  return {};
}

}  // namespace fettle
