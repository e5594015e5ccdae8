#include "tune/parts/gpu_transpose.h"

#include <algorithm>

#include "schedule/primitives.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/gpu_width.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

constexpr int64_t kShortest = 8;     // of a loop that is cut into tiles
constexpr int64_t kLineBytes = 128;  // that a row of a tile should have
constexpr int64_t kWordBytes = 4;    // of a bank of shared memory

// A tile is as wide as high. Threads have elements of it in turns, some rows apart.
struct Shape {
  int64_t width = 32, turns = 4;
};

Result<Shape> pick_shape(Schedule& s, const Target& target, Decider& decider, const BlockStructure& block,
                         const Transposing& tile) {
  const int64_t bytes = block.loads[tile.load].buffer->dtype.element_bytes();
  const int64_t shorter = std::min(block.extents[tile.written], block.extents[tile.read]);
  const int64_t units = target.gpu ? target.gpu->multiprocessors : 1;
  const bool has_many = block.points() / (64 * 64) >= 8 * units;
  const bool wide = (32 * bytes < kLineBytes || has_many) && shorter >= 64;
  FETTLE_TRY(const int64_t width, decider.pick(s, {"tile", first_of(wide ? 64 : 32, {32, 64})}));
  FETTLE_TRY(const int64_t turns, decider.pick(s, {"turns", first_of(width / 8, {4, 8, 16})}));
  return Shape{width, width == 64 ? turns : std::min<int64_t>(turns, 8)};
}

// Rows of a tile: by threads along y, in turns of each.
struct Cut {
  LoopRef tiles, turn, y;
};
Result<Cut> cut_rows_of_tile(Schedule& s, LoopRef loop, const Shape& shape) {
  FETTLE_TRY(
      const Loops parts,
      split(s, {.loop = loop, .factors = {kInfer, shape.turns, shape.width / shape.turns}, .tail = Tail::kGuard}));
  return Cut{parts[0], parts[1], parts[2]};
}

Result<> bind_threads(Schedule& s, LoopRef y, LoopRef x, LoopRef turn) {
  FETTLE_TRY_VOID(bind(s, {.loop = y, .thread_axis = "threadIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {.loop = x, .thread_axis = "threadIdx.x"}));
  return unroll(s, {.loop = turn});
}

// A tile of what is read, filled along memory.
Result<std::string> fetch(Schedule& s, BlockRef block, int64_t read, LoopRef at, size_t around, int64_t axis,
                          const Shape& shape) {
  FETTLE_TRY(const BlockRef copy,
             cache_read(s, {.block = block, .read_index = read, .scope = "shared", .consumer_blocks = {}}));
  FETTLE_TRY_VOID(compute_at(s, {.block = copy, .loop = at, .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops all, get_loops(s, {.block = copy}));
  if (all.size() != around + 2) return fail(ErrorCode::E230, "a tile of what is read has not two dimensions");
  const LoopRef x = all.back();
  FETTLE_TRY(const int64_t width, loop_extent(s, x));
  if (width > shape.width) return fail(ErrorCode::E230, "a tile of what is read is wider than one of what is written");
  FETTLE_TRY(const Cut rows, cut_rows_of_tile(s, all[around], shape));
  FETTLE_TRY_VOID(reorder(s, {.loops = {rows.tiles, rows.y, x, rows.turn}}));
  FETTLE_TRY_VOID(bind_threads(s, rows.y, x, rows.turn));
  // Rows begin in banks that follow one another, but where their length is open.
  FETTLE_TRY(const BlockNode* copying, block_node(s, copy));
  const int64_t bytes = copying->writes.front().buffer->dtype.element_bytes();
  const int64_t apart = std::max<int64_t>(1, kWordBytes / bytes);
  const auto aligned =
      storage_align(s, {.block = copy, .buffer_index = 0, .axis = axis, .factor = shape.width, .offset = apart});
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

Result<Finished> gpu_transpose(Schedule& s, const Target& target, Decider& decider, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  Finished finished = {node->name};
  const auto structure = block_structure(s.func(), *node, Extents::kOpen);
  const auto tile = structure ? transposing(*structure) : std::nullopt;
  if (!tile) return fail(ErrorCode::E230, node->name + " does not transpose");
  FETTLE_TRY(const Shape shape, pick_shape(s, target, decider, *structure, *tile));
  const AccessPattern& load = structure->loads[tile->load];
  const int64_t axis = load.dimension_of(structure->vars[tile->written]);
  FETTLE_TRY(const int64_t read, read_index_of(s, block, load.buffer));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  Loops blocks;
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != tile->written && i != tile->read) blocks.push_back(loops[i]);
  FETTLE_TRY(const Loops across,
             split(s, {.loop = loops[tile->written], .factors = {kInfer, shape.width}, .tail = Tail::kGuard}));
  FETTLE_TRY(const Cut rows, cut_rows_of_tile(s, loops[tile->read], shape));
  blocks.insert(blocks.end(), {rows.tiles, across[0]});
  Loops order = blocks;
  order.insert(order.end(), {rows.y, across[1], rows.turn});
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY(const Loops bound, bind_blocks(s, target, blocks, true));
  FETTLE_TRY_VOID(bind_threads(s, rows.y, across[1], rows.turn));
  FETTLE_TRY(const std::string copy, fetch(s, block, read, bound.back(), bound.size(), axis, shape));
  finished.push_back(copy);
  return finished;
}

}  // namespace fettle
