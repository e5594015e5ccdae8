#include "generations/autotvm/template/tiling_knobs.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "generations/autotvm/template/knob_decider.h"
#include "generations/autotvm/template/workload_kind.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/copies.h"
#include "tune/parts/panels.h"
#include "tune/parts/preferences.h"
#include "tune/parts/tile_steps.h"

namespace fettle {

std::shared_ptr<const Target> target_or_usual(const Schedule& s) {
  static const std::shared_ptr<const Target> usual = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  return s.target() ? std::make_shared<const Target>(*s.target()) : usual;
}

int64_t lanes_of(const Schedule& s) { return std::max(1, target_or_usual(s)->vector_lanes(4)); }

std::vector<std::vector<int64_t>> row_cuts(int64_t extent, int64_t most) {
  std::vector<std::vector<int64_t>> cuts;
  for (int64_t rows = 1; rows <= std::min(extent, most); ++rows) {
    const int64_t tiles = (extent + rows - 1) / rows;
    if (cuts.empty() || cuts.back()[0] != tiles) cuts.push_back({tiles, rows});
  }
  return cuts;
}

namespace {

/// One run of tile_with_knobs.
struct Tiling {
  TemplateContext& t;
  const TileKnobs& which;
  BlockRef block;
  BlockStructure structure;
  TilingRoles roles;
  int64_t lanes = 1, vectors = 1;
  std::string row_knob, second_knob;
  bool flat = false, packed = false;

  Schedule& schedule() const { return t.schedule(); }
  std::string knob(const std::string& name) const { return name + which.suffix; }
  int64_t extent(size_t iter) const { return structure.extents[iter]; }
  bool merged(size_t iter) const { return flat && iter < *roles.row && iter + roles.flat >= *roles.row; }

  std::optional<size_t> second_row() const;
  Result<bool> pack();
  bool panels_are_far() const;
  Result<> ask_ahead(LoopRef panels);
  Result<Loops> cut_rows_by_knob(LoopRef loop, std::string& name, int64_t most, Tail tail);
  Result<Loops> unroll_steps(Loops reduce);
  Result<> unroll_windows(const Loops& loops);
  Result<> share_out(const Loops& outer);
  Result<Loops> row_tiles(const Loops& loops);
  void fit_registers(int64_t registers);
  Result<> run();
};

// Pixels of several image rows in one tile: where there are few in a row, windows share what they read, or slide over
// both.
std::optional<size_t> Tiling::second_row() const {
  if (flat || !roles.row || !which.rows.empty()) return {};
  if (roles.second_row) return roles.second_row;
  const auto slides = [&](size_t iter) {
    return std::ranges::any_of(structure.loads, [&](const AccessPattern& load) {
      return std::ranges::any_of(roles.reduce, [&](size_t tap) {
        return extent(tap) > 1 && load.shares_dimension(structure.vars[tap], structure.vars[iter]);
      });
    });
  };
  if (!slides(*roles.row)) return {};
  for (auto i = roles.outside.rbegin(); i != roles.outside.rend(); ++i)
    if (extent(*i) > 1 && slides(*i)) return *i;
  return {};
}

// The factor that moves with the vectors, from panels; true if all that does so is.
Result<bool> Tiling::pack() {
  if (!which.pack || !roles.panel) return false;
  const AccessPattern& load = structure.loads[*roles.panel];
  if (load.dimension_of(structure.vars[roles.vector]) < 0) return false;
  FETTLE_TRY(const int64_t chosen, t.define_knob(knob("pack"), {0, 1}));
  packed = chosen != 0;
  if (!packed) return false;
  Schedule& s = schedule();
  FETTLE_TRY(
      const BlockRef panels,
      pack_panels(s, block, load.buffer, panel_map(structure, roles, load, vectors * lanes, std::nullopt, lanes)));
  if (!roles.panel_is_constant) FETTLE_TRY_VOID(fill_in_vectors(s, panels, lanes));
  return roles.vector_loads.size() == 1;
}

bool Tiling::panels_are_far() const {
  if (!which.pack || !roles.panel || !roles.panel_is_constant) return false;
  if (which.prefetch) return *which.prefetch;
  const Buffer& read = structure.loads[*roles.panel].buffer;
  int64_t bytes = read->dtype.element_bytes();
  for (const Expr& extent : read->shape) bytes *= as_int(extent) ? *as_int(extent) : 1;
  return bytes > cache_bytes(*target_or_usual(schedule()), 1);
}

// Where the loop over panels has not become part of a parallel one.
Result<> Tiling::ask_ahead(LoopRef panels) {
  if (!panels_are_far()) return {};
  KnobDecider knobs(t, which.suffix);
  return may_ask_for_next_panel(schedule(), knobs, panels, false, packed);
}

// [tiles, rows]
Result<Loops> Tiling::cut_rows_by_knob(LoopRef loop, std::string& name, int64_t most, Tail tail) {
  Schedule& s = schedule();
  FETTLE_TRY(const Stmt stmt, s.loop(loop));
  const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
  name = knob("tile_" + stmt.as<ForNode>()->var->name);
  return t.define_split(
      name, loop,
      {.n = 2, .policy = SplitPolicy::kCandidates, .candidates = row_cuts(extent ? *extent : 1, most), .tail = tail});
}

// The loop over rows in tiles; none where there are no rows.
Result<Loops> Tiling::row_tiles(const Loops& loops) {
  int64_t height = 0;
  if (!which.rows.empty()) {
    row_knob = knob("rows");
    FETTLE_TRY(height, t.define_knob(row_knob, which.rows));
  }
  if (!roles.row) return Loops();
  FETTLE_TRY(const LoopRef row, whole_rows(schedule(), loops, roles, flat));
  const Tail tail = tail_of_rows(structure, *roles.row, flat);
  if (height > 0) return cut_rows(schedule(), row, height, tail);
  const int64_t most = flat ? std::min(which.max_rows, extent(*roles.row)) : which.max_rows;
  return cut_rows_by_knob(row, row_knob, most, tail);
}

//   for k: …   →   for k_0: for k_1 in 4 unrolled: …
Result<Loops> Tiling::unroll_steps(Loops reduce) {
  if (!which.unroll_steps || !structure.multiplies_two_loads || reduce.size() != 1) return reduce;
  constexpr int64_t kMostSteps = 12;
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= kMostSteps; ++n)
    if (extent(roles.reduce[0]) % n == 0) counts.push_back(n);
  if (counts.size() == 1) return reduce;
  KnobDecider knobs(t, which.suffix);
  return several_steps(schedule(), knobs, reduce[0], counts);
}

Result<> Tiling::unroll_windows(const Loops& loops) {
  std::vector<std::pair<std::string, int64_t>> knobs;
  for (size_t i : roles.reduce) {
    if (extent(i) < 2 || extent(i) > 8 || roles.reduce.size() == 1) continue;
    FETTLE_TRY(const Var var, schedule().loop_var(loops[i]));
    knobs.emplace_back(knob("unroll_" + var->name), extent(i));
    FETTLE_TRY_VOID(t.define_annotate(knobs.back().first, {loops[i]}, {.policy = AnnotateOptions::Policy::kTryUnroll}));
  }
  constexpr int64_t kMostUnrolled = 1024;  // vectors of sums; each border of an image has its own
  const std::string vectors_knob = knob("vectors"), row = row_knob, second = second_knob;
  t.constrain("unrolled windows are not too much code" + which.suffix, [=](const ConfigView& v) {
    int64_t sums = v[vectors_knob][0];
    for (const std::string& rows : {row, second})
      if (!rows.empty()) sums *= v[rows].back();
    for (const auto& [name, taps] : knobs)
      if (v[name][0] == static_cast<int64_t>(LoopAnnotation::kUnroll)) sums *= taps;
    return sums <= kMostUnrolled;
  });
  return {};
}

Result<> Tiling::share_out(const Loops& outer) {
  if (which.most_parallel == 0) return {};
  std::vector<int64_t> together;
  for (int64_t n = 0; n <= std::min<int64_t>(which.most_parallel, std::ssize(outer)); ++n) together.push_back(n);
  FETTLE_TRY(const int64_t threads, t.define_knob(knob("parallel"), together));
  if (threads == 0) return {};
  LoopRef loop = outer.front();
  if (threads > 1) {
    FETTLE_TRY(loop, fuse(schedule(), {.loops = Loops(outer.begin(), outer.begin() + threads)}));
  }
  return parallel(schedule(), {.loop = loop});
}

void Tiling::fit_registers(int64_t registers) {
  const std::string vectors_knob = knob("vectors"), row = row_knob, second = second_knob;
  t.constrain("the tile fits the registers" + which.suffix, [=](const ConfigView& v) {
    const int64_t wide = v[vectors_knob][0];
    int64_t sums = wide;
    for (const std::string& rows : {row, second})
      if (!rows.empty()) sums *= v[rows].back();
    return sums + wide < registers;
  });
}

Result<> Tiling::run() {
  Schedule& s = schedule();
  const int64_t width = extent(roles.vector);
  while (lanes / 2 >= width) lanes /= 2;
  std::vector<int64_t> widths;
  for (int64_t n : {1, 2, 3, 4, 6})
    if (n == 1 || (n - 1) * lanes < width) widths.push_back(n);
  FETTLE_TRY(vectors, t.define_knob(knob("vectors"), widths));
  FETTLE_TRY(const bool surplus, pack());
  // A tile is not longer than a row, so that it crosses at most one border.
  flat = roles.flat > 0 && (extent(*roles.row) >= preferences::kLongRow || !which.rows.empty());
  FETTLE_TRY(const BlockRef back,
             accumulate_in_registers(s, block, flat ? std::optional(flat_map(structure, roles)) : std::nullopt));

  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  FETTLE_TRY(const Loops columns, cut_columns(s, loops[roles.vector], vectors, lanes, surplus));
  const std::optional<size_t> second = second_row();
  TileLoops nest{.panels = {columns[0]}};
  Loops inner;
  for (size_t i : roles.batch) nest.batch.push_back(loops[i]);
  for (size_t i : roles.outside) {
    if (merged(i)) continue;
    LoopRef loop = loops[i];
    if (i == second) {
      constexpr int64_t kMostSecondRows = 8;
      FETTLE_TRY(const Loops parts, cut_rows_by_knob(loop, second_knob, kMostSecondRows, Tail::kBalance));
      loop = parts[0];
      inner.push_back(parts[1]);
    }
    nest.outside.push_back(loop);
  }
  FETTLE_TRY(const Loops rows, row_tiles(loops));
  if (!rows.empty()) {
    nest.rows = {rows[0]};
    inner.push_back(rows[1]);
  }
  inner.insert(inner.end(), {columns[1], columns[2]});
  Loops reduce, outer = nest.around();
  for (size_t i : roles.reduce) reduce.push_back(loops[i]);
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({outer, reduce, inner})}));
  if (which.order_reduce && reduce.size() > 1) {
    FETTLE_TRY(reduce, t.define_reorder(knob("order_reduce"), reduce, {.policy = ReorderOptions::Policy::kAll}));
  }
  if (outer.size() > 1) {
    // As they are, or the columns innermost.
    std::vector<int64_t> given, last;
    for (size_t i = 0; i < outer.size(); ++i) given.push_back(static_cast<int64_t>(i));
    for (size_t i = 0; i < outer.size(); ++i)
      if (i != roles.batch.size()) last.push_back(static_cast<int64_t>(i));
    last.push_back(static_cast<int64_t>(roles.batch.size()));
    FETTLE_TRY(outer, t.define_reorder(knob("order"), outer,
                                       {.policy = ReorderOptions::Policy::kCandidates,
                                        .candidates = {given, last},
                                        .names = {"given", "columns_inside"}}));
  }

  FETTLE_TRY_VOID(unroll_tile(s, inner));
  if (which.unroll_windows) FETTLE_TRY_VOID(unroll_windows(loops));
  FETTLE_TRY(reduce, unroll_steps(reduce));

  FETTLE_TRY_VOID(write_back(s, back, outer.back(), which.shared + outer.size(), lanes));
  FETTLE_TRY_VOID(begin_sums(s, block, reduce.front()));
  FETTLE_TRY_VOID(share_out(outer));
  FETTLE_TRY_VOID(ask_ahead(columns[0]));
  fit_registers(target_or_usual(s)->vector_registers);
  return {};
}

}  // namespace

Result<> tile_with_knobs(TemplateContext& t, const std::string& name, const TileKnobs& which) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto structure = block_structure(s.func(), *stmt.as<BlockNode>());
  if (!structure) return fail(ErrorCode::E230, "block " + name + " is no plain nest");
  const int64_t lanes = std::max(1, target_or_usual(s)->vector_lanes(structure->store.buffer->dtype.element_bytes()));
  const auto roles = tiling_roles(s.func(), *structure, std::nullopt, which.shared);
  if (!roles) return nest_with_knobs(t, name);
  Tiling tiling{.t = t, .which = which, .block = block, .structure = *structure, .roles = *roles, .lanes = lanes};
  return tiling.run();
}

Result<> nest_with_knobs(TemplateContext& t, const std::string& name) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto structure = block_structure(s.func(), *stmt.as<BlockNode>());
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  if (!structure || loops.empty()) return {};
  const int64_t lanes = std::max(1, target_or_usual(s)->vector_lanes(structure->store.buffer->dtype.element_bytes()));
  std::optional<size_t> vector;
  for (size_t i = 0; i < structure->n_iters(); ++i)
    if (!structure->reduce[i] && structure->store.strides[i] == 1 && structure->extents[i] > 1) vector = i;
  LoopRef first = loops.front();
  if (vector) {
    FETTLE_TRY(const int64_t wide, t.define_knob("vectors_" + name, {1, 2, 4}));
    FETTLE_TRY(const Loops parts,
               split(s, {.loop = loops[*vector], .factors = {kInfer, wide, lanes}, .tail = Tail::kPartition}));
    Loops order;
    for (size_t i = 0; i < loops.size(); ++i)
      if (i != *vector) order.push_back(loops[i]);
    // A reduction's loops stay inside of the loop over whole vectors, its steps outside of the lanes.
    order.insert(std::ranges::find_if(order,
                                      [&](const LoopRef& loop) {
                                        const auto at =
                                            static_cast<size_t>(std::ranges::find(loops, loop) - loops.begin());
                                        return bool(structure->reduce[at]);
                                      }),
                 parts[0]);
    order.insert(order.end(), {parts[1], parts[2]});
    FETTLE_TRY_VOID(reorder(s, {.loops = order}));
    FETTLE_TRY_VOID(unroll(s, {.loop = parts[1]}));
    FETTLE_TRY_VOID(vectorize(s, {.loop = parts[2]}));
    first = order.front();
  }
  if (structure->reduce.front() && vector != size_t{0}) return {};
  return t.define_annotate("parallel_" + name, {first}, {.policy = AnnotateOptions::Policy::kTryParallel})
      .map([](const auto&) {});
}

Result<> tile_the_reduction(TemplateContext& t, const TileKnobs& which) {
  const auto kind = reduction_kind(t.schedule().func());
  if (!kind) return fail(ErrorCode::E230, "no reduction");
  inline_producers(t.schedule(), kind->block);
  return tile_with_knobs(t, kind->block, which);
}

Result<> nests_of_others(TemplateContext& t, const std::vector<std::string>& but) {
  std::vector<std::string> names;
  const Func func = t.schedule().func();
  for (const BlockNode* block : blocks_of(func.root())) {
    const bool constant = !block->reads.empty() && std::ranges::all_of(block->reads, [&](const Region& read) {
      return is_constant(func, read.buffer);
    });
    if (!constant && std::ranges::find(but, block->name) == but.end()) names.push_back(block->name);
  }
  for (const std::string& name : names) FETTLE_TRY_VOID(nest_with_knobs(t, name));
  return {};
}

}  // namespace fettle
