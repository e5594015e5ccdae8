#include "generations/ansor/sketch/register_sums.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generations/ansor/sketch/guarded_taps.h"
#include "generations/ansor/sketch/scheduled.h"
#include "generations/ansor/sketch/unrolled_size.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives.h"
#include "tune/parts/copies.h"

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

/// The place of the outermost loop of the reduction from which on its sums fit `registers`; nothing where there is
/// none.
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

/// Those of the reduction inside the tile's registers, as far as code does not become too long (verify_unrolled_size).
Result<> unroll_guarded_taps(Schedule& s, BlockRef block, const std::vector<Level>& levels, size_t first) {
  std::set<const VarNode*> tile, reduction;
  int64_t copies = 1;
  for (size_t i = 0; i < levels.size(); ++i) {
    const Level& level = levels[i];
    if (level.kind == ForKind::kUnrolled || (i >= first && !level.reduces && level.kind == ForKind::kSerial))
      copies *= std::max<int64_t>(level.extent, 1);
    if (i < first || !level.counts()) continue;
    FETTLE_TRY(const Var var, s.loop_var(level.loop));
    if (!level.reduces) tile.insert(var.get());
    if (level.reduces && level.kind == ForKind::kSerial && level.extent > 0) reduction.insert(var.get());
  }
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const std::set<const VarNode*> taps = guarded_taps(*stmt.as<BlockNode>(), tile, reduction);
  std::vector<LoopRef> loops;
  for (const Level& level : levels) {
    FETTLE_TRY(const Var var, s.loop_var(level.loop));
    if (!taps.contains(var.get())) continue;
    loops.push_back(level.loop);
    if (__builtin_mul_overflow(copies, level.extent, &copies)) return {};
  }
  if (copies > UnrolledSizeOptions{}.most_guarded) return {};
  for (const LoopRef& loop : loops) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  return {};
}

/// The only reader of what `store` writes, as far as it stands in the same nest, is moved to where a tile is done:
/// between the two there are loops over what is spatial alone.
///   for c: O_register = …; O = O_register;  for ax: Y = max(O, 0)
///   →   for c: O_register = …; O = O_register; Y = max(O, 0)
Result<> bring_reader(Schedule& s, BlockRef store, const std::vector<Level>& levels, size_t first, int64_t lanes) {
  FETTLE_TRY(const Stmt stmt, s.block(store));
  const auto& node = *stmt.as<BlockNode>();
  const Func func = s.func();
  const auto readers = consumers_of(func.root(), node.writes[0].buffer.get());
  if (readers.size() != 1 || readers.front()->init) return {};
  const auto done = loops_around(func, &node), loops = loops_around(func, readers.front());
  const auto shared = static_cast<size_t>(std::ranges::mismatch(done, loops).in1 - done.begin());
  if (shared == 0 || shared >= first) return {};
  bool iterates = false;
  for (size_t i = shared; i < first; ++i) {
    if (levels[i].counts() && levels[i].reduces) return {};
    iterates |= levels[i].counts();
  }
  if (!iterates) return {};
  const std::string name = readers.front()->name;
  FETTLE_TRY(const BlockRef reader, get_block(s, {.name = name}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = reader, .loop = levels[first - 1].loop}));
  FETTLE_TRY(const BlockRef moved, get_block(s, {.name = name}));
  return vectorize_copy(s, moved, first, lanes);
}

/// The only reader of what `store` writes reads the registers, where it stands behind a single iteration of the loops
/// from `first` on and has lanes as they have.
Result<> read_from_registers(Schedule& s, BlockRef store, size_t first, int64_t lanes) {
  FETTLE_TRY(const Stmt stmt, s.block(store));
  const auto& node = *stmt.as<BlockNode>();
  const Func func = s.func();
  const BufferNode* sums = node.writes[0].buffer.get();
  const auto readers = consumers_of(func.root(), sums);
  if (is_param(func, sums) || readers.size() != 1 || readers.front()->init) return {};
  const auto done = loops_around(func, &node), loops = loops_around(func, readers.front());
  const auto own = std::ranges::mismatch(done, loops);
  const auto runs_once = [](const ForNode* loop) { return as_int(loop->extent) && *as_int(loop->extent) == 1; };
  if (own.in2 == loops.begin() || own.in1 > done.begin() + static_cast<std::ptrdiff_t>(first) ||
      !std::all_of(own.in1, done.begin() + static_cast<std::ptrdiff_t>(first), runs_once))
    return {};
  bool in_lanes = false;
  const auto unrollable = [&](const ForNode* loop) {
    const bool vector = loop->loop_kind == ForKind::kVectorized;
    in_lanes |= vector && as_int(loop->extent) && *as_int(loop->extent) == lanes;
    return as_int(loop->extent) &&
           (vector ? in_lanes : loop->loop_kind == ForKind::kSerial || loop->loop_kind == ForKind::kUnrolled);
  };
  if (!std::all_of(own.in2, loops.end(), unrollable) || !in_lanes) return {};
  const auto place = own.in2 - loops.begin();
  const std::string reader = readers.front()->name;
  FETTLE_TRY_VOID(compute_inline(s, {.block = store}));
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = reader}));
  FETTLE_TRY(const std::vector<LoopRef> tile, get_loops(s, {block}));
  for (size_t i = static_cast<size_t>(place); i < tile.size(); ++i) {
    FETTLE_TRY(const Stmt loop, s.loop(tile[i]));
    if (loop.as<ForNode>()->loop_kind == ForKind::kSerial) FETTLE_TRY_VOID(unroll(s, {.loop = tile[i]}));
  }
  return {};
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
  if (Schedule unrolled = s; unroll_guarded_taps(unrolled, block, levels, *first)) s = std::move(unrolled);
  // As the sums are accumulated: runs of fewer lanes, or one by one.
  int64_t run = 1;
  for (const Level& level : levels)
    if (level.kind == ForKind::kVectorized) run = level.extent;
  for (const BlockRef& copy : copies) {
    if (run > 1) {
      FETTLE_TRY_VOID(vectorize_copy(s, copy, *first, std::min(run, lanes)));
      continue;
    }
    FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {copy}));
    for (size_t i = *first; i < loops.size(); ++i) FETTLE_TRY_VOID(unroll(s, {.loop = loops[i]}));
  }
  if (run == 1) return {};
  if (Schedule brought = s; bring_reader(brought, copies[1], levels, *first, std::min(run, lanes)))
    s = std::move(brought);
  Schedule read = s;
  if (read_from_registers(read, copies[1], *first, std::min(run, lanes))) s = std::move(read);
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
    if (vectorize_copy(changed, other, first, lanes, false)) s = std::move(changed);
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
