#include "tune/parts/gpu_transpose.h"

#include "schedule/primitives.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

constexpr int64_t kWidth = 32;    // of a tile, each way: what a warp reads, and writes, together
constexpr int64_t kTurns = 4;     // of a thread, kWidth / kTurns rows apart
constexpr int64_t kShortest = 8;  // of a loop that is cut into tiles

// Rows of a tile: by threads along y, in turns of each.
struct Cut {
  LoopRef tiles, turn, y;
};
Result<Cut> cut_rows_of_tile(Schedule& s, LoopRef loop) {
  FETTLE_TRY(const Loops parts,
             split(s, {.loop = loop, .factors = {kInfer, kTurns, kWidth / kTurns}, .tail = Tail::kGuard}));
  return Cut{parts[0], parts[1], parts[2]};
}

Result<> bind_threads(Schedule& s, LoopRef y, LoopRef x, LoopRef turn) {
  FETTLE_TRY_VOID(bind(s, {.loop = y, .thread_axis = "threadIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {.loop = x, .thread_axis = "threadIdx.x"}));
  return unroll(s, {.loop = turn});
}

// A tile of what is read, filled along memory.
Result<std::string> fetch(Schedule& s, BlockRef block, int64_t read, LoopRef at, size_t around, int64_t axis) {
  FETTLE_TRY(const BlockRef copy,
             cache_read(s, {.block = block, .read_index = read, .scope = "shared", .consumer_blocks = {}}));
  FETTLE_TRY_VOID(compute_at(s, {.block = copy, .loop = at, .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops all, get_loops(s, {.block = copy}));
  if (all.size() != around + 2) return fail(ErrorCode::E230, "a tile of what is read has not two dimensions");
  const LoopRef x = all.back();
  FETTLE_TRY(const int64_t width, loop_extent(s, x));
  if (width > kWidth) return fail(ErrorCode::E230, "a tile of what is read is wider than one of what is written");
  FETTLE_TRY(const Cut rows, cut_rows_of_tile(s, all[around]));
  FETTLE_TRY_VOID(reorder(s, {.loops = {rows.tiles, rows.y, x, rows.turn}}));
  FETTLE_TRY_VOID(bind_threads(s, rows.y, x, rows.turn));
  // Rows begin in banks that follow one another, but where their length is open.
  const auto aligned =
      storage_align(s, {.block = copy, .buffer_index = 0, .axis = axis, .factor = kWidth, .offset = 1});
  if (!aligned && aligned.error().code != ErrorCode::E221) return fail(aligned.error());
  FETTLE_TRY(const BlockNode* node, block_node(s, copy));
  return node->name;
}

}  // namespace

std::optional<Transposing> transposing(const BlockStructure& block) {
  std::optional<Transposing> found;
  for (size_t i = 0; i < block.n_iters(); ++i) {
    if (block.reduce[i]) return {};
    if (block.store.strides[i] != 1 || block.extents[i] < kShortest) continue;
    for (size_t l = 0; l < block.loads.size(); ++l) {
      const AccessPattern& load = block.loads[l];
      if (load.guarded || load.strides[i] == 0 || load.strides[i] == 1 || load.dimension_of(block.vars[i]) < 0)
        continue;
      for (size_t j = 0; j < block.n_iters(); ++j) {
        if (load.strides[j] != 1 || block.extents[j] < kShortest || load.dimension_of(block.vars[j]) < 0) continue;
        if (found) return {};
        found = {i, j, l};
      }
    }
  }
  return found;
}

Result<Finished> gpu_transpose(Schedule& s, const Target& target, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  Finished finished = {node->name};
  const auto structure = block_structure(s.func(), *node, Extents::kOpen);
  const auto tile = structure ? transposing(*structure) : std::nullopt;
  if (!tile) return fail(ErrorCode::E230, node->name + " does not transpose");
  const AccessPattern& load = structure->loads[tile->load];
  const int64_t axis = load.dimension_of(structure->vars[tile->written]);
  FETTLE_TRY(const int64_t read, read_index_of(s, block, load.buffer));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  Loops blocks;
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != tile->written && i != tile->read) blocks.push_back(loops[i]);
  FETTLE_TRY(const Loops across,
             split(s, {.loop = loops[tile->written], .factors = {kInfer, kWidth}, .tail = Tail::kGuard}));
  FETTLE_TRY(const Cut rows, cut_rows_of_tile(s, loops[tile->read]));
  blocks.insert(blocks.end(), {rows.tiles, across[0]});
  Loops order = blocks;
  order.insert(order.end(), {rows.y, across[1], rows.turn});
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY(const Loops bound, bind_blocks(s, target, blocks, true));
  FETTLE_TRY_VOID(bind_threads(s, rows.y, across[1], rows.turn));
  FETTLE_TRY(const std::string copy, fetch(s, block, read, bound.back(), bound.size(), axis));
  finished.push_back(copy);
  return finished;
}

}  // namespace fettle
