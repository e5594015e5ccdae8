// Panels of what vectors and rows of a register tile read: whether they are packed, and the copies.

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ir/query.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/loops.h"
#include "tune/parts/materialized_factors.h"
#include "tune/parts/panels.h"
#include "tune/parts/preferences.h"
#include "tune/parts/register_tiling.h"
#include "tune/parts/tile_steps.h"

namespace fettle {

// A right factor that is no constant is read in place, or from panels that are filled while the program runs. That pays
// where its rows lie so that the caches hold few of them, and several tiles read them.
Result<> RegisterTiling::choose_packing() {
  if (roles.panel || !roles.packable || !roles.row || !structure.multiplies_two_loads || options.shared > 0) return {};
  const AccessPattern& load = structure.loads[*roles.packable];
  if (load.touches(*roles.row) || structure.store.buffer->dtype != load.buffer->dtype) return {};
  if (const BlockNode* node = find_block(func->body, name)) {
    const BlockNode* maker = materialized_for(func, *node, load.buffer);
    if (maker && load.strides[roles.vector] == 1) {
      wide = maker->name;
      roles.panel = roles.packable;
      return {};
    }
  }
  const int64_t run = choice.tile.vectors * lanes * load.buffer->dtype.element_bytes();
  int64_t tiles = (extent(*roles.row) + choice.tile.rows - 1) / choice.tile.rows, stride = 0;
  for (size_t i : roles.outside) tiles *= extent(i);
  for (size_t i : roles.reduce)
    if (load.touches(i)) stride = std::max(stride, std::abs(load.strides[i]) * load.buffer->dtype.element_bytes());
  if (tiles < preferences::kTilesOfPanel || stride <= run) return {};
  const auto held = static_cast<double>(cache_bytes_of_runs(target, 1, run, stride));
  const bool is_far = static_cast<double>(panel_bytes()) > preferences::kOfSecondLevel * held;
  const bool many = tiles >= preferences::kManyTilesOfPanel && !waits_for_writes();
  FETTLE_TRY(const int64_t packed, pick("pack", {0, 1}, is_far || many ? 1 : 0));
  if (packed != 0) roles.panel = roles.packable;
  return {};
}

// A left factor whose steps lie far apart (it is transposed): each step of a tile reads a few elements of a line of its
// own. The first-level cache keeps none of these lines for the next tile, and no hardware asks for them ahead. Where
// several panels read them, they are transposed first.
Result<> RegisterTiling::choose_row_packing() {
  if (!roles.row || !roles.panel || roles.row_loads.size() != 1 || roles.reduce.size() != 1 ||
      !structure.multiplies_two_loads || options.shared > 0)
    return {};
  const AccessPattern& load = structure.loads[roles.row_loads[0]];
  const size_t step = roles.reduce[0];
  if (load.strides[*roles.row] != 1 || load.dimension_of(var(*roles.row)) < 0 || load.dimension_of(var(step)) < 0 ||
      load.guarded || is_constant(func, load.buffer) || load.buffer == structure.loads[*roles.panel].buffer)
    return {};
  const int64_t element = load.buffer->dtype.element_bytes(), stride = std::abs(load.strides[step]) * element,
                run = choice.tile.rows * element, width = choice.tile.vectors * lanes;
  const int64_t panels = (extent(roles.vector) + width - 1) / width;
  if (stride <= run || panels < preferences::kPanelsOfPackedRows) return {};
  const bool is_far = extent(step) * kCacheLineBytes > cache_bytes_of_runs(target, 0, run, stride);
  FETTLE_TRY(const int64_t packed, pick("pack_rows", {0, 1}, is_far ? 1 : 0));
  choice.packs_rows = packed != 0;
  return {};
}

// Panels outside write short runs of many rows, whose lines come from far away. A tile of few steps ends before they
// have come. Rows outside write one after the other, while the other factor stays in the second-level cache.
bool RegisterTiling::waits_for_writes() const {
  if (!structure.multiplies_two_loads || !roles.row) return false;
  const int64_t element = structure.store.buffer->dtype.element_bytes();
  int64_t steps = 1, written = element;
  for (size_t i = 0; i < structure.n_iters(); ++i) (structure.reduce[i] ? steps : written) *= extent(i);
  const int64_t run = choice.tile.vectors * lanes;
  return steps <= preferences::kFewStepsOfWrites && run < extent(roles.vector) && written > cache(1) &&
         2 * steps * extent(roles.vector) * element <= cache(1);
}

// The same of a long other factor: as many panels as take half of the second-level cache, so that the runs of all rows
// are as long. 0 where there is nothing to wait for, or one block has all.
int64_t RegisterTiling::panels_of_long_runs() const {
  if (!structure.multiplies_two_loads || !roles.row || roles.vector_loads.size() != 1 || blocked) return 0;
  if (structure.loads[roles.vector_loads[0]].touches(*roles.row)) return 0;
  const int64_t element = structure.store.buffer->dtype.element_bytes(), run = choice.tile.vectors * lanes;
  int64_t steps = 1, written = element;
  for (size_t i = 0; i < structure.n_iters(); ++i) (structure.reduce[i] ? steps : written) *= extent(i);
  if (steps > preferences::kFewStepsOfWrites || written <= cache(1) || structure.store.strides[roles.vector] != 1)
    return 0;
  const int64_t panels = (extent(roles.vector) + run - 1) / run, fit = cache(1) / (2 * steps * run * element);
  return fit >= 2 && panels > fit ? fit : 0;
}

// Each panel just before its tiles, so that it is still near.
bool RegisterTiling::fills_each_panel() const {
  return roles.panel && roles.panel == roles.packable && !choice.rows_outside && choice.block == 0;
}

// What a panel and a tile of rows take, while one is worked through.
int64_t RegisterTiling::panel_bytes() const {
  int64_t steps = 1;
  for (size_t i : roles.reduce) steps *= extent(i);
  if (choice.depth > 0) steps = std::min(steps, choice.depth);
  return steps * choice.tile.vectors * lanes * structure.store.buffer->dtype.element_bytes();
}

// All rows share the vectors of a packed panel, which does not stay in the first-level cache.
bool RegisterTiling::streams_panels() const {
  if (!roles.panel || !roles.row || roles.vector_loads.size() != 1) return false;
  if (structure.loads[roles.vector_loads[0]].touches(*roles.row)) return false;
  return 5 * panel_bytes() > 3 * cache(0);
}

// One tile has all rows, and what it reads of vectors takes more than the first-level cache, and no more than the
// second: there it may still lie from the call before. The hardware asks ahead by what each load has read before. With
// several steps at once each of them strides over what the others read: Zen 5 then gets half of what its second level
// delivers. (What comes from farther away comes as slowly either way.)
bool RegisterTiling::streams_from_l2() const {
  int64_t rows = 1, bytes = extent(roles.vector) * structure.store.buffer->dtype.element_bytes();
  for (size_t i = 0; i < structure.n_iters(); ++i) {
    if (structure.reduce[i]) bytes *= extent(i);
    if (!structure.reduce[i] && i != roles.vector) rows *= extent(i);
  }
  return rows <= choice.tile.rows * choice.tile.second_rows && bytes > cache(0) && bytes <= cache(1);
}

// Reads the vectors from panels; true if everything that moves with the vectors is read so, surplus lanes included.
Result<bool> RegisterTiling::pack() {
  if (!roles.panel) return false;
  const AccessPattern& load = structure.loads[*roles.panel];
  if (!wide.empty()) FETTLE_TRY_VOID(pack_narrow(choice.tile.vectors * lanes));
  FETTLE_TRY(panels, pack_panels(s, block, load.buffer,
                                 panel_map(structure, roles, load, choice.tile.vectors * lanes, layouts.blocked_reduce,
                                           lanes)));
  if (roles.panel_is_constant) {  // runs once, when the program is compiled
    FETTLE_TRY(const BlockNode* copy, block_node(s, panels));
    made.insert(made.end(), {copy->name, copy->name + "_pad"});
  }
  if (!wide.empty()) {
    FETTLE_TRY(const BlockRef maker, get_block(s, {.name = wide}));
    FETTLE_TRY_VOID(compute_inline(s, {.block = maker}));
  }
  return roles.vector_loads.size() == 1;
}

// The constants of which wide panels are made lie in panels, too: (n, …) → (n // width, …, n % width)
Result<> RegisterTiling::pack_narrow(int64_t width) {
  const auto next = [&]() -> std::optional<std::pair<Buffer, size_t>> {
    const Func now = s.func();
    const BlockNode* maker = find_block(now->body, wide);
    const VarNode* column = maker->iters.back().var.get();
    std::optional<std::pair<Buffer, size_t>> found;
    each_node<LoadNode>(maker->body, [&](const LoadNode& load) {
      for (size_t d = 0; d < load.indices.size(); ++d)
        if (!found && load.indices[d].get() == column && is_constant(now, load.buffer)) found = {load.buffer, d};
    });
    return found;
  };
  while (const auto narrow = next()) {
    const auto& [buffer, along] = *narrow;
    IndexMap map;
    for (size_t d = 0; d < buffer->shape.size(); ++d) map.inputs.push_back(make_var("d" + std::to_string(d)));
    const Expr column = map.inputs[along];
    map.outputs.push_back(floordiv(column, Expr(width)));
    for (size_t d = 0; d < map.inputs.size(); ++d)
      if (d != along) map.outputs.push_back(map.inputs[d]);
    map.outputs.push_back(floormod(column, Expr(width)));
    FETTLE_TRY(const BlockRef maker, get_block(s, {.name = wide}));
    FETTLE_TRY(const BlockRef copy, pack_panels(s, maker, buffer, map));
    FETTLE_TRY(const BlockNode* node, block_node(s, copy));
    made.insert(made.end(), {node->name, node->name + "_pad"});
  }
  return {};
}

// Reads the rows from a copy whose innermost dimension is that of the reduction. The copy is scheduled as any block.
Result<> RegisterTiling::pack_rows() {
  if (!choice.packs_rows) return {};
  const AccessPattern& load = structure.loads[roles.row_loads[0]];
  const auto row = static_cast<size_t>(load.dimension_of(var(*roles.row))),
             step = static_cast<size_t>(load.dimension_of(var(roles.reduce[0])));
  IndexMap map;
  for (size_t d = 0; d < load.indices.size(); ++d) map.inputs.push_back(make_var("d" + std::to_string(d)));
  for (size_t d = 0; d < load.indices.size(); ++d)
    if (d != row && d != step) map.outputs.emplace_back(map.inputs[d]);
  map.outputs.emplace_back(map.inputs[row]);
  map.outputs.emplace_back(map.inputs[step]);
  return pack_panels(s, block, load.buffer, map).map([](BlockRef) {});
}

}  // namespace fettle
