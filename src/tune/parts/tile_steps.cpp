#include "tune/parts/tile_steps.h"

#include "ir/annotations.h"
#include "schedule/primitives.h"
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
