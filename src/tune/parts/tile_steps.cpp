#include "tune/parts/tile_steps.h"

#include "ir/annotations.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/copies.h"
#include "tune/parts/inline.h"
#include "tune/parts/loops.h"
#include "tune/parts/preferences.h"

namespace fettle {

Result<Tile> pick_tile(Schedule& s, Decider& decider, std::vector<Tile> tiles, const std::string& block) {
  if (tiles.empty()) return fail(ErrorCode::E230, "no register tile fits " + block);
  if (tiles.size() > preferences::kMostTiles) tiles.resize(preferences::kMostTiles);
  std::vector<std::string> names;
  std::vector<double> weights;
  for (const Tile& tile : tiles) {
    names.push_back(tile.name());
    weights.push_back(tiles.front().cost / tile.cost);
  }
  FETTLE_TRY(const size_t place, decider.pick_place(s, {"tile", std::move(names), 0, std::move(weights)}));
  return tiles[place];
}

Result<int64_t> read_index_of(const Schedule& s, BlockRef block, const Buffer& buffer) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto read = std::ranges::find(node->reads, buffer, &Region::buffer);
  if (read == node->reads.end()) return fail(ErrorCode::E220, buffer->name);
  return read - node->reads.begin();
}

Result<BlockRef> pack_panels(Schedule& s, BlockRef block, const Buffer& buffer, const IndexMap& layout) {
  FETTLE_TRY(const int64_t read, read_index_of(s, block, buffer));
  FETTLE_TRY(const BlockRef panels, cache_read(s, {.block = block, .read_index = read}));
  FETTLE_TRY_VOID(transform_layout(s, {.block = panels, .index_map = layout}));
  return panels;
}

int64_t room_in_l2(const Target& target) {
  return static_cast<int64_t>(preferences::kOfSecondLevelForTiles * static_cast<double>(cache_bytes(target, 1)));
}

IndexMap moved_last(size_t rank, size_t dim) {
  IndexMap map;
  for (size_t d = 0; d < rank; ++d) map.inputs.push_back(make_var("d" + std::to_string(d)));
  for (size_t d = 0; d < rank; ++d)
    if (d != dim) map.outputs.push_back(Expr(map.inputs[d]));
  map.outputs.push_back(Expr(map.inputs[dim]));
  return map;
}

Result<LaidOut> operands_apart(const Schedule& s, BlockRef copy) {
  FETTLE_TRY(const BlockNode* node, block_node(s, copy));
  const auto block = block_structure(s.func(), *node, Extents::kOpen);
  LaidOut apart;
  if (!block) return apart;
  size_t lane = 0;
  while (lane < block->n_iters() &&
         (block->reduce[lane] || block->extents[lane] == 1 || block->store.strides[lane] != 1))
    ++lane;
  if (lane == block->n_iters()) return apart;
  for (const AccessPattern& load : block->loads) {
    const int dim = load.dimension_of(block->vars[lane]);
    if (dim < 0 || load.strides[lane] == 1 || load.guarded || !s.func().find_param(load.buffer.get())) continue;
    int64_t readers = 1;
    for (size_t i = 0; i < block->n_iters(); ++i)
      if (!load.touches(i)) readers *= block->extents[i];
    if (readers < preferences::kReadersOfOperand) continue;
    apart.emplace_back(load.buffer, moved_last(load.indices.size(), static_cast<size_t>(dim)));
  }
  return apart;
}

Result<> lay_out_operands(Schedule& s, BlockRef copy, const LaidOut& apart) {
  for (const auto& [buffer, map] : apart) FETTLE_TRY_VOID(pack_panels(s, copy, buffer, map).map([](BlockRef) {}));
  return {};
}

Result<BlockRef> accumulate_in_registers(Schedule& s, BlockRef block, const std::optional<IndexMap>& flat) {
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = block, .scope = kScopeRegister}));
  if (flat) FETTLE_TRY_VOID(transform_layout(s, {.block = block, .index_map = *flat}));
  inline_consumers(s, back);
  return back;
}

Result<LoopRef> whole_rows(Schedule& s, const Loops& loops, const TilingRoles& roles, bool flat) {
  if (!flat) return loops[*roles.row];
  const auto last = loops.begin() + static_cast<std::ptrdiff_t>(*roles.row) + 1;
  return fuse(s, {.loops = Loops(last - 1 - static_cast<std::ptrdiff_t>(roles.flat), last)});
}

Tail tail_of_rows(const BlockStructure& structure, size_t row, bool flat) {
  const bool has_borders = structure.open[row] && std::ranges::any_of(structure.loads, [&](const AccessPattern& load) {
                             return load.guarded && load.touches(row);
                           });
  return flat || has_borders ? Tail::kPartition : Tail::kBalance;
}

Result<Loops> cut_rows(Schedule& s, LoopRef rows, int64_t height, Tail tail) {
  return split(s, {.loop = rows, .factors = {kInfer, height}, .tail = tail});
}

Result<Loops> cut_columns(Schedule& s, LoopRef columns, int64_t vectors, int64_t lanes, bool padded) {
  return split(s,
               {.loop = columns, .factors = {kInfer, vectors, lanes}, .tail = padded ? Tail::kPad : Tail::kPartition});
}

Loops concatenated(std::initializer_list<Loops> lists) {
  Loops all;
  for (const Loops& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Loops TileLoops::around() const {
  return rows_outside ? concatenated({batch, outside, rows, panels}) : concatenated({batch, panels, outside, rows});
}

Result<> unroll_tile(Schedule& s, const Loops& inner) {
  for (size_t i = 0; i + 1 < inner.size(); ++i) FETTLE_TRY_VOID(unroll(s, {.loop = inner[i]}));
  return vectorize(s, {.loop = inner.back()});
}

Result<> write_back(Schedule& s, BlockRef copy, LoopRef at, size_t first, int64_t lanes) {
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = copy, .loop = at, .preserve_unit_loops = false}));
  return vectorize_copy(s, copy, first, lanes);
}

Result<> begin_sums(Schedule& s, BlockRef block, LoopRef reduction) {
  return decompose_reduction(s, {.block = block, .loop = reduction}).map([](BlockRef) {});
}

Result<Loops> several_steps(Schedule& s, Decider& decider, LoopRef loop, const std::vector<int64_t>& counts,
                            size_t preferred) {
  FETTLE_TRY(const int64_t steps, decider.pick(s, {"steps", counts, preferred}));
  if (steps == 1) return Loops{loop};
  FETTLE_TRY(Loops parts, split(s, {.loop = loop, .factors = {kInfer, steps}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = parts[1]}));
  return parts;
}

Result<> ask_for_next_panel(Schedule& s, LoopRef panels) {
  if (!s.loop(panels)) return {};
  return annotate(s, {.target = panels, .key = kPrefetchKey, .value = 1});
}

Result<> may_ask_for_next_panel(Schedule& s, Decider& decider, LoopRef panels, bool preferred, bool packed) {
  FETTLE_TRY(const int64_t ahead, decider.pick(s, {"prefetch", {0, 1}, preferred ? size_t{1} : size_t{0}}));
  return ahead != 0 && packed ? ask_for_next_panel(s, panels) : Result<>();
}

}  // namespace fettle
