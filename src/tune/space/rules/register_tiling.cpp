#include "tune/space/rules/register_tiling.h"

#include <algorithm>
#include <optional>

#include "schedule/dataflow.h"
#include "schedule/primitives/cache_inplace.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/get_consumers.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tune/space/tiling.h"

namespace fettle {
namespace {

struct Choice {
  int64_t rows = 1, vectors = 1;
  bool flat = false;
  int64_t depth = 0;          // of the blocks of the reduction; 0: not blocked
  bool rows_outside = false;  // row tiles outside of column panels
  bool rows_last = true;      // else the row-like loops are inside of the panels, row tiles innermost
};

std::optional<int64_t> index_of_read(const BlockNode& block, const Buffer& buffer) {
  for (size_t r = 0; r < block.reads.size(); ++r)
    if (block.reads[r].buffer == buffer) return static_cast<int64_t>(r);
  return std::nullopt;
}

// The map that brings the vector iterator's dimension into panels:
//   (k, n) → (n // width, k, n % width)
IndexMap panel_map(const BlockStructure& block, const TilingRoles& roles, const AccessPattern& load, int64_t width) {
  IndexMap map;
  Expr panel, lane;
  struct Dim {
    size_t rank;
    Expr index;
  };
  std::vector<Dim> dims;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    const Var var = make_var("d" + std::to_string(d));
    map.inputs.push_back(var);
    size_t rank = 0;
    for (size_t i = 0; i < block.n_iters(); ++i) {
      if (load.indices[d].get() != block.block->iters[i].var.get()) continue;
      if (i == roles.vector) {
        panel = floordiv(Expr(var), Expr(width));
        lane = floormod(Expr(var), Expr(width));
        rank = SIZE_MAX;
      } else {
        const auto at = std::find(roles.reduce.begin(), roles.reduce.end(), i);
        // Spatial iterators first, then the reduction in the order of its loops.
        rank = at == roles.reduce.end() ? i + 1 : 1000 + static_cast<size_t>(at - roles.reduce.begin());
      }
    }
    if (rank != SIZE_MAX) dims.push_back({rank, Expr(var)});
  }
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.rank < b.rank; });
  for (const Dim& dim : dims)
    if (dim.rank < 1000) map.outputs.push_back(dim.index);
  map.outputs.push_back(panel);
  for (const Dim& dim : dims)
    if (dim.rank >= 1000) map.outputs.push_back(dim.index);
  map.outputs.push_back(lane);
  return map;
}

// Consumers that work element by element on what the block writes join its write-back.
void inline_consumers(RuleContext& ctx, BlockRef back) {
  for (int depth = 0; depth < 16; ++depth) {
    auto consumers = get_consumers(ctx.schedule, {.block = back});
    if (!consumers || consumers->size() != 1) return;
    if (!reverse_compute_inline(ctx.schedule, {.block = consumers->front()})) return;
  }
}

bool applies(const RuleContext& ctx, const BlockNode& block) {
  if (!block.init) return false;
  const auto structure = block_structure(ctx.schedule.func(), block);
  if (!structure || structure->loads.empty()) return false;
  if (std::none_of(structure->reduce.begin(), structure->reduce.end(), [](bool r) { return r; })) return false;
  return tiling_roles(ctx.schedule.func(), *structure, ctx.lanes(structure->store.buffer->dtype)).has_value();
}

Result<> apply(RuleContext& ctx, BlockRef block) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  const std::string name = node->name;
  const Func func = s.func();  // keeps `node` alive
  const BlockStructure structure = *block_structure(func, *node);
  const DType dtype = structure.store.buffer->dtype;
  const TilingRoles roles = *tiling_roles(func, structure, ctx.lanes(dtype));
  s.set_address_prefix("register_tiling/" + name);

  // --- decisions
  int64_t lanes = ctx.lanes(dtype);
  const int64_t vector_extent = structure.extents[roles.vector];
  while (lanes / 2 >= vector_extent) lanes /= 2;
  const auto stride_bytes = [&](size_t iter) {
    return roles.row_loads.empty() ? int64_t{0}
                                   : std::abs(structure.loads[roles.row_loads.front()].strides[iter]) *
                                         dtype.element_bytes();
  };
  TileProblem problem;
  problem.lanes = lanes;
  problem.vector_extent = vector_extent;
  problem.threads = ctx.threads;
  problem.multiplies = structure.multiplies_two_loads;
  for (size_t i : roles.reduce) problem.steps *= structure.extents[i];
  for (size_t i : roles.batch) problem.repeats *= structure.extents[i];
  for (size_t i : roles.outside) problem.repeats *= structure.extents[i];
  problem.shared_vectors = roles.row && std::none_of(roles.vector_loads.begin(), roles.vector_loads.end(), [&](size_t l) {
                             return structure.loads[l].touches(*roles.row);
                           });
  const int64_t flat_extent = [&] {
    int64_t n = 1;
    if (roles.flat > 0)
      for (size_t i = *roles.row - roles.flat; i <= *roles.row; ++i) n *= structure.extents[i];
    return n;
  }();
  Choice choice;
  choice.flat = roles.flat > 0;
  if (roles.flat > 0) {
    FETTLE_TRY(const int64_t flat, choose(ctx, "flat", {1, 0}));
    choice.flat = flat != 0;
  }
  if (roles.row) {
    problem.row_extent = choice.flat ? flat_extent : structure.extents[*roles.row];
    problem.row_stride_bytes = stride_bytes(*roles.row);
  }
  if (choice.flat) problem.repeats = std::max<int64_t>(1, problem.repeats * structure.extents[*roles.row] / flat_extent);
  std::vector<Tile> tiles = ranked_tiles(problem, *ctx.target);
  if (tiles.empty()) return fail(ErrorCode::E230, "no register tile fits " + name);
  if (tiles.size() > 24) tiles.resize(24);
  std::vector<int64_t> codes;
  std::vector<double> weights;
  for (const Tile& tile : tiles) {
    codes.push_back(tile.rows * 100 + tile.vectors);
    weights.push_back(tiles.front().cost / tile.cost);
  }
  FETTLE_TRY(const int64_t code,
             choose(ctx, "tile", codes, std::min<size_t>(static_cast<size_t>(ctx.rank), codes.size() - 1), weights));
  choice.rows = code / 100;
  choice.vectors = code % 100;

  // One long reduction may be blocked.
  std::optional<size_t> blocked;
  if (roles.reduce.size() == 1 && structure.extents[roles.reduce[0]] >= 512) {
    std::vector<int64_t> depths = {0};
    const int64_t extent = structure.extents[roles.reduce[0]];
    size_t preferred = 0;
    for (int64_t depth : {256, 384, 512, 768, 1024})
      if (depth < extent) depths.push_back(depth);
    if (extent > 2048)
      for (size_t d = 0; d < depths.size(); ++d)
        if (depths[d] == 768) preferred = d;
    FETTLE_TRY(choice.depth, choose(ctx, "depth", depths, preferred));
    if (choice.depth > 0) blocked = roles.reduce[0];
  }
  {
    // Where the panels exceed L2 and the rows do not, rows go inside, so that a panel is read once.
    FETTLE_TRY(const int64_t outside, choose(ctx, "rows_outside", {0, 1}));
    choice.rows_outside = outside != 0;
  }

  // --- packing
  const int64_t width = choice.vectors * lanes;
  bool padded = false;
  if (roles.panel) {
    const AccessPattern& load = structure.loads[*roles.panel];
    FETTLE_TRY(node, block_node(ctx, block));
    const auto read = index_of_read(*node, load.buffer);
    if (!read) return fail(ErrorCode::E220, load.buffer->name);
    FETTLE_TRY(const BlockRef panels, cache_read(s, {.block = block, .read_index = *read}));
    FETTLE_TRY_VOID(transform_layout(s, {.block = panels, .buffer_index = 0, .buffer_index_type = "write",
                                         .index_map = panel_map(structure, roles, load, width)}));
    padded = std::all_of(roles.vector_loads.begin(), roles.vector_loads.end(), [&](size_t l) { return l == *roles.panel; });
  }
  BlockRef back;
  if (!blocked) {
    FETTLE_TRY(back, cache_write(s, {.block = block, .write_index = 0, .scope = kScopeRegister}));
    inline_consumers(ctx, back);
  }

  // --- loops
  FETTLE_TRY(const std::vector<LoopRef> loops, loops_of_block(ctx, block));
  std::vector<LoopRef> batch, outside, reduce;
  for (size_t i : roles.batch) batch.push_back(loops[i]);
  for (size_t i : roles.outside) {
    const bool merged = choice.flat && i < *roles.row && i + roles.flat >= *roles.row;
    if (!merged) outside.push_back(loops[i]);
  }
  LoopRef depth_outer;
  for (size_t i : roles.reduce) {
    if (blocked && i == *blocked) {
      FETTLE_TRY(const std::vector<LoopRef> parts,
                 split(s, {.loop = loops[i], .factors = {kInfer, choice.depth}, .tail = Tail::kBalance}));
      depth_outer = parts[0];
      reduce.push_back(parts[1]);
    } else {
      reduce.push_back(loops[i]);
    }
  }
  LoopRef row_outer, row_inner;
  const bool has_rows = roles.row.has_value();
  if (has_rows) {
    LoopRef row = loops[*roles.row];
    if (choice.flat) {
      const auto first = loops.begin() + static_cast<std::ptrdiff_t>(*roles.row - roles.flat);
      FETTLE_TRY(row, fuse(s, {.loops = std::vector<LoopRef>(first, first + static_cast<std::ptrdiff_t>(roles.flat) + 1)}));
    }
    FETTLE_TRY(const std::vector<LoopRef> parts,
               split(s, {.loop = row, .factors = {kInfer, choice.rows}, .tail = Tail::kBalance}));
    row_outer = parts[0];
    row_inner = parts[1];
  }
  FETTLE_TRY(const std::vector<LoopRef> columns,
             split(s, {.loop = loops[roles.vector], .factors = {kInfer, choice.vectors, lanes},
                       .tail = padded ? Tail::kPad : Tail::kPartition}));

  std::vector<LoopRef> outer = batch;
  if (choice.rows_outside) {
    outer.insert(outer.end(), outside.begin(), outside.end());
    if (has_rows) outer.push_back(row_outer);
    outer.push_back(columns[0]);
  } else {
    outer.push_back(columns[0]);
    outer.insert(outer.end(), outside.begin(), outside.end());
    if (has_rows) outer.push_back(row_outer);
  }
  const LoopRef tile = outer.back();
  std::vector<LoopRef> order;
  if (blocked) order.push_back(depth_outer);
  order.insert(order.end(), outer.begin(), outer.end());
  order.insert(order.end(), reduce.begin(), reduce.end());
  if (has_rows) order.push_back(row_inner);
  order.insert(order.end(), {columns[1], columns[2]});
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));

  // --- the tile
  if (has_rows) FETTLE_TRY_VOID(unroll(s, {.loop = row_inner}));
  FETTLE_TRY_VOID(unroll(s, {.loop = columns[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = columns[2]}));
  // Short reductions along the rows (kw) are unrolled, so that guards at the borders become constants.
  const size_t first_reduce = blocked ? 1 : 0;
  (void)first_reduce;
  for (size_t r = 0; r < reduce.size(); ++r) {
    const size_t iter = roles.reduce[r];
    if (blocked && iter == *blocked) continue;
    const bool moves_with_rows = std::any_of(structure.loads.begin(), structure.loads.end(), [&](const AccessPattern& a) {
      return has_rows && a.touches(iter) && a.touches(*roles.row) && a.guarded;
    });
    const bool innermost = r + 1 == reduce.size();
    if (structure.extents[iter] <= 7 && structure.extents[iter] > 1 && (moves_with_rows ? !innermost || reduce.size() > 1 : false) &&
        r > 0)
      FETTLE_TRY_VOID(unroll(s, {.loop = reduce[r]}));
  }

  std::vector<BlockRef> copies;
  if (blocked) {
    FETTLE_TRY(copies, cache_inplace(s, {.block = block, .write_index = 0, .loop = tile}));
    inline_consumers(ctx, copies.back());
  } else {
    FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = tile, .preserve_unit_loops = false}));
    copies = {back};
  }
  for (const BlockRef& copy : copies) {
    FETTLE_TRY(const BlockNode* copy_node, block_node(ctx, copy));
    ctx.done.insert(copy_node->name);
    FETTLE_TRY_VOID(vectorize_copy(ctx, copy, order.size() - reduce.size() - (has_rows ? 3 : 2), lanes));
  }
  if (!blocked) FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = reduce.front()}).map([](BlockRef) {}));
  ctx.done.insert(name);
  ctx.done.insert(name + "_init");
  if (blocked) return parallelize(ctx, {outer.begin(), outer.end()});
  return parallelize(ctx, outer);
}

}  // namespace

constinit const SketchRule register_tiling_def = {"register_tiling", 10, applies, apply};

}  // namespace fettle
