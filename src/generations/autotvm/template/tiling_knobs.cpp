#include "generations/autotvm/template/tiling_knobs.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "generations/autotvm/template/workload_kind.h"
#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_consumers.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tune/space/panels.h"
#include "tune/space/rule.h"
#include "tune/space/tiling.h"
#include "tune/space/transposing.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

// Consumers that work element by element join the copy of the tile.
void inline_consumers(Schedule& s, BlockRef back) {
  for (int depth = 0; depth < 16; ++depth) {
    Schedule trial = s;
    const auto consumers = get_consumers(trial, {.block = back});
    if (!consumers || consumers->size() != 1) return;
    if (!reverse_compute_inline(trial, {.block = consumers->front()})) return;
    s = std::move(trial);
  }
}

//   for n_0: for k: for n_1 in width: copy   →   parallel n_0: for k: for n_1_0: for n_1_1 in lanes vectorized: copy
Result<> fill_in_vectors(Schedule& s, BlockRef panels, int64_t lanes) {
  FETTLE_TRY(const bool transposed, copy_in_transposed_tiles(s, panels, lanes, true));
  if (transposed) return {};
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = panels}));
  if (loops.size() < 2) return {};
  FETTLE_TRY(const Loops parts, split(s, {.loop = loops.back(), .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts[1]}));
  return parallel(s, {.loop = loops.front()});
}

}  // namespace

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

Result<> parallel_together(Schedule& s, const Loops& loops, int n) {
  Loops together;
  int iterating = 0;
  for (const LoopRef& loop : loops) {
    if (iterating == n) break;
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    iterating += is_one(stmt.as<ForNode>()->extent) ? 0 : 1;
    together.push_back(loop);
  }
  if (together.empty()) return {};
  LoopRef loop = together.front();
  if (together.size() > 1) {
    FETTLE_TRY(loop, fuse(s, {.loops = together}));
  }
  return parallel(s, {.loop = loop});
}

Result<> inline_producers(Schedule& s, const std::string& block) {
  std::vector<std::string> names;
  for (const BlockNode* node : blocks_of(s.func().root())) {
    if (node->name == block) break;
    if (!node->init) names.push_back(node->name);
  }
  for (const std::string& name : names) {
    Schedule trial = s;
    FETTLE_TRY(const BlockRef ref, get_block(trial, {.name = name}));
    if (compute_inline(trial, {.block = ref})) s = std::move(trial);
  }
  return {};
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
  Result<Loops> cut_rows(LoopRef loop, std::string& name, int64_t most, Tail tail);
  Result<Loops> unroll_steps(Loops reduce);
  Result<LoopRef> whole_rows(const Loops& loops) const;
  Result<> unroll_windows(const Loops& loops);
  Result<> share_out(const Loops& outer);
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
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto* node = stmt.as<BlockNode>();
  const auto read = std::ranges::find(node->reads, load.buffer, &Region::buffer);
  if (read == node->reads.end()) return false;
  FETTLE_TRY(const BlockRef panels, cache_read(s, {.block = block, .read_index = read - node->reads.begin()}));
  const IndexMap map = panel_map(structure, roles, load, vectors * lanes, std::nullopt, lanes);
  FETTLE_TRY_VOID(transform_layout(s, {.block = panels, .index_map = map}));
  if (!roles.panel_is_constant) FETTLE_TRY_VOID(fill_in_vectors(s, panels, lanes));
  return roles.vector_loads.size() == 1;
}

bool Tiling::panels_are_far() const {
  if (!which.pack || !roles.panel || !roles.panel_is_constant) return false;
  if (which.prefetch) return *which.prefetch;
  const Buffer& read = structure.loads[*roles.panel].buffer;
  int64_t bytes = read->dtype.element_bytes();
  for (const Expr& extent : read->shape) bytes *= as_int(extent) ? *as_int(extent) : 1;
  const auto target = target_or_usual(schedule());
  return target->caches.size() > 1 && bytes > target->caches[1].size_bytes;
}

// Where the loop over panels has not become part of a parallel one.
Result<> Tiling::ask_ahead(LoopRef panels) {
  if (!panels_are_far()) return {};
  FETTLE_TRY(const int64_t ahead, t.define_knob(knob("prefetch"), {0, 1}));
  if (!ahead || !packed || !schedule().loop(panels)) return {};
  return annotate(schedule(), {.target = panels, .key = kPrefetchKey, .value = 1});
}

// The loop over rows: those of an image, or of all that lie one behind the other.
Result<LoopRef> Tiling::whole_rows(const Loops& loops) const {
  if (!flat) return loops[*roles.row];
  const auto last = loops.begin() + static_cast<std::ptrdiff_t>(*roles.row) + 1;
  return fuse(schedule(), {.loops = Loops(last - 1 - static_cast<std::ptrdiff_t>(roles.flat), last)});
}

// [tiles, rows]
Result<Loops> Tiling::cut_rows(LoopRef loop, std::string& name, int64_t most, Tail tail) {
  Schedule& s = schedule();
  FETTLE_TRY(const Stmt stmt, s.loop(loop));
  const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
  name = knob("tile_" + stmt.as<ForNode>()->var->name);
  return t.define_split(
      name, loop,
      {.n = 2, .policy = SplitPolicy::kCandidates, .candidates = row_cuts(extent ? *extent : 1, most), .tail = tail});
}

//   for k: …   →   for k_0: for k_1 in 4 unrolled: …
Result<Loops> Tiling::unroll_steps(Loops reduce) {
  if (!which.unroll_steps || !structure.multiplies_two_loads || reduce.size() != 1) return reduce;
  constexpr int64_t kMostSteps = 12;
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= kMostSteps; ++n)
    if (extent(roles.reduce[0]) % n == 0) counts.push_back(n);
  if (counts.size() == 1) return reduce;
  FETTLE_TRY(const int64_t steps, t.define_knob(knob("steps"), counts));
  if (steps == 1) return reduce;
  FETTLE_TRY(Loops parts, split(schedule(), {.loop = reduce[0], .factors = {kInfer, steps}}));
  FETTLE_TRY_VOID(unroll(schedule(), {.loop = parts[1]}));
  return parts;
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
      if (v[name][0] == static_cast<int64_t>(LoopNote::kUnroll)) sums *= taps;
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
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = block, .scope = kScopeRegister}));
  // A tile is not longer than a row, so that it crosses at most one border.
  constexpr int64_t kLongRow = 8;
  flat = roles.flat > 0 && (extent(*roles.row) >= kLongRow || !which.rows.empty());
  if (flat) FETTLE_TRY_VOID(transform_layout(s, {.block = block, .index_map = flat_map(structure, roles)}));
  inline_consumers(s, back);

  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  const Tail tail = surplus ? Tail::kPad : Tail::kPartition;
  FETTLE_TRY(const Loops columns,
             split(s, {.loop = loops[roles.vector], .factors = {kInfer, vectors, lanes}, .tail = tail}));
  const std::optional<size_t> second = second_row();
  Loops outer, inner;
  for (size_t i : roles.batch) outer.push_back(loops[i]);
  outer.push_back(columns[0]);
  for (size_t i : roles.outside) {
    if (merged(i)) continue;
    LoopRef loop = loops[i];
    if (i == second) {
      constexpr int64_t kMostSecondRows = 8;
      FETTLE_TRY(const Loops parts, cut_rows(loop, second_knob, kMostSecondRows, Tail::kBalance));
      loop = parts[0];
      inner.push_back(parts[1]);
    }
    outer.push_back(loop);
  }
  if (!which.rows.empty()) {
    row_knob = knob("rows");
    FETTLE_TRY(const int64_t rows, t.define_knob(row_knob, which.rows));
    if (roles.row) {
      FETTLE_TRY(const LoopRef row, whole_rows(loops));
      const Tail rest = flat ? Tail::kPartition : Tail::kBalance;
      FETTLE_TRY(const Loops parts, split(s, {.loop = row, .factors = {kInfer, rows}, .tail = rest}));
      outer.push_back(parts[0]);
      inner.push_back(parts[1]);
    }
  } else if (roles.row) {
    FETTLE_TRY(const LoopRef row, whole_rows(loops));
    const int64_t most = flat ? std::min(which.max_rows, extent(*roles.row)) : which.max_rows;
    FETTLE_TRY(const Loops parts, cut_rows(row, row_knob, most, flat ? Tail::kPartition : Tail::kBalance));
    outer.push_back(parts[0]);
    inner.push_back(parts[1]);
  }
  inner.insert(inner.end(), {columns[1], columns[2]});
  Loops reduce;
  for (size_t i : roles.reduce) reduce.push_back(loops[i]);
  Loops order = outer;
  order.insert(order.end(), reduce.begin(), reduce.end());
  order.insert(order.end(), inner.begin(), inner.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
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
                                       {.policy = ReorderOptions::Policy::kCandidates, .candidates = {given, last}}));
  }

  for (size_t i = 0; i + 1 < inner.size(); ++i) FETTLE_TRY_VOID(unroll(s, {.loop = inner[i]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = inner.back()}));
  if (which.unroll_windows) FETTLE_TRY_VOID(unroll_windows(loops));
  FETTLE_TRY(reduce, unroll_steps(reduce));

  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = outer.back(), .preserve_unit_loops = false}));
  const auto target = target_or_usual(s);
  RuleContext ctx{.schedule = s, .target = target};
  FETTLE_TRY_VOID(vectorize_copy(ctx, back, which.shared + outer.size(), lanes));
  s = std::move(ctx.schedule);
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = reduce.front()}).map([](BlockRef) {}));
  FETTLE_TRY_VOID(share_out(outer));
  FETTLE_TRY_VOID(ask_ahead(columns[0]));
  fit_registers(target->vector_registers);
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
  const auto roles = tiling_roles(s.func(), *structure, std::nullopt, which.shared, which.constant);
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
  FETTLE_TRY_VOID(inline_producers(t.schedule(), kind->block));
  return tile_with_knobs(t, kind->block, which);
}

Result<> nests_of_others(TemplateContext& t, const std::vector<std::string>& but) {
  std::vector<std::string> names;
  const Func func = t.schedule().func();
  for (const BlockNode* block : blocks_of(func.root())) {
    const bool constant = !block->reads.empty() && std::ranges::all_of(block->reads, [&](const Region& read) {
      const Param* param = func.find_param(read.buffer.get());
      return param && param->kind == ParamKind::kConstant;
    });
    if (!constant && std::ranges::find(but, block->name) == but.end()) names.push_back(block->name);
  }
  for (const std::string& name : names) FETTLE_TRY_VOID(nest_with_knobs(t, name));
  return {};
}

}  // namespace fettle
