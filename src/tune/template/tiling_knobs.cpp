#include "tune/template/tiling_knobs.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "schedule/dataflow.h"
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
#include "tune/space/rule.h"
#include "tune/space/tiling.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

std::shared_ptr<const Target> target_of(const Schedule& s) {
  static const std::shared_ptr<const Target> usual = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  return s.target() ? std::make_shared<const Target>(*s.target()) : usual;
}

// (k, n) → (n // width, k, n % width): the dimension of the vectors in panels.
IndexMap panel_map(size_t rank, size_t dim, int64_t width) {
  IndexMap map;
  for (size_t d = 0; d < rank; ++d) map.inputs.push_back(make_var("d" + std::to_string(d)));
  map.outputs.push_back(floordiv(Expr(map.inputs[dim]), Expr(width)));
  for (size_t d = 0; d < rank; ++d)
    if (d != dim) map.outputs.push_back(map.inputs[d]);
  map.outputs.push_back(floormod(Expr(map.inputs[dim]), Expr(width)));
  return map;
}

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
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = panels}));
  if (loops.size() < 2) return {};
  FETTLE_TRY(const Loops parts, split(s, {.loop = loops.back(), .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts[1]}));
  return parallel(s, {.loop = loops.front()});
}

}  // namespace

int64_t lanes_of(const Schedule& s) { return std::max(1, target_of(s)->vector_lanes(4)); }

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

Result<> tile_with_knobs(TemplateContext& t, const std::string& name, const TileKnobs& which) {
  Schedule& s = t.schedule();
  const auto target = target_of(s);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto structure = block_structure(s.func(), *stmt.as<BlockNode>());
  if (!structure) return fail(ErrorCode::E230, "block " + name + " is no plain nest");
  int64_t lanes = std::max(1, target->vector_lanes(structure->store.buffer->dtype.element_bytes()));
  const auto roles = tiling_roles(s.func(), *structure, lanes);
  if (!roles) return nest_with_knobs(t, name);
  const int64_t width = structure->extents[roles->vector];
  while (lanes / 2 >= width) lanes /= 2;

  std::vector<int64_t> widths;
  for (int64_t n : {1, 2, 3, 4, 6})
    if (n == 1 || (n - 1) * lanes < width) widths.push_back(n);
  FETTLE_TRY(const int64_t vectors, t.define_knob("vectors" + which.suffix, widths));
  bool packed = false;
  if (which.pack && roles->panel) {
    const AccessPattern& load = structure->loads[*roles->panel];
    const int dim = load.dimension_of(structure->vars[roles->vector]);
    if (dim >= 0) {
      FETTLE_TRY(const int64_t pack, t.define_knob("pack" + which.suffix, {0, 1}));
      packed = pack != 0;
      const auto* node = stmt.as<BlockNode>();
      const auto read = std::ranges::find(node->reads, load.buffer, &Region::buffer);
      if (packed && read != node->reads.end()) {
        FETTLE_TRY(const BlockRef panels, cache_read(s, {.block = block, .read_index = read - node->reads.begin()}));
        FETTLE_TRY_VOID(transform_layout(
            s,
            {.block = panels, .index_map = panel_map(load.indices.size(), static_cast<size_t>(dim), vectors * lanes)}));
        if (!roles->panel_is_constant) FETTLE_TRY_VOID(fill_in_vectors(s, panels, lanes));
      }
    }
  }
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = block, .scope = kScopeRegister}));
  inline_consumers(s, back);

  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  const bool surplus = packed && roles->vector_loads.size() == 1;
  FETTLE_TRY(const Loops columns, split(s, {.loop = loops[roles->vector],
                                            .factors = {kInfer, vectors, lanes},
                                            .tail = surplus ? Tail::kPad : Tail::kPartition}));
  Loops outer, inner;
  for (size_t i : roles->batch) outer.push_back(loops[i]);
  outer.push_back(columns[0]);
  for (size_t i : roles->outside) outer.push_back(loops[i]);
  std::string row_knob;
  if (roles->row) {
    const LoopRef row = loops[*roles->row];
    FETTLE_TRY(const Var var, s.loop_var(row));
    row_knob = "tile_" + var->name + which.suffix;
    FETTLE_TRY(const Loops parts,
               t.define_split(
                   row_knob, row,
                   {.n = 2, .policy = SplitPolicy::kVerbose, .max_factor = which.max_rows, .tail = Tail::kBalance}));
    outer.push_back(parts[0]);
    inner.push_back(parts[1]);
  }
  inner.insert(inner.end(), {columns[1], columns[2]});
  Loops reduce;
  for (size_t i : roles->reduce) reduce.push_back(loops[i]);
  Loops order = outer;
  order.insert(order.end(), reduce.begin(), reduce.end());
  order.insert(order.end(), inner.begin(), inner.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  if (which.order_reduce && reduce.size() > 1) {
    FETTLE_TRY(reduce,
               t.define_reorder("order_reduce" + which.suffix, reduce, {.policy = ReorderOptions::Policy::kAll}));
  }
  if (outer.size() > 1) {
    // As they are, or the columns innermost.
    std::vector<int64_t> given, last;
    for (size_t i = 0; i < outer.size(); ++i) given.push_back(static_cast<int64_t>(i));
    for (size_t i = 0; i < outer.size(); ++i)
      if (i != roles->batch.size()) last.push_back(static_cast<int64_t>(i));
    last.push_back(static_cast<int64_t>(roles->batch.size()));
    FETTLE_TRY(outer, t.define_reorder("order" + which.suffix, outer,
                                       {.policy = ReorderOptions::Policy::kCandidates, .candidates = {given, last}}));
  }

  for (size_t i = 0; i + 1 < inner.size(); ++i) FETTLE_TRY_VOID(unroll(s, {.loop = inner[i]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = inner.back()}));
  if (which.unroll_windows)
    for (size_t i : roles->reduce) {
      if (structure->extents[i] < 2 || structure->extents[i] > 8 || roles->reduce.size() == 1) continue;
      FETTLE_TRY(const Var var, s.loop_var(loops[i]));
      FETTLE_TRY_VOID(t.define_annotate("unroll_" + var->name + which.suffix, {loops[i]},
                                        {.policy = AnnotateOptions::Policy::kTryUnroll}));
    }

  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = outer.back(), .preserve_unit_loops = false}));
  RuleContext ctx{.schedule = s, .target = target};
  FETTLE_TRY_VOID(vectorize_copy(ctx, back, outer.size(), lanes));
  s = std::move(ctx.schedule);
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = reduce.front()}).map([](BlockRef) {}));
  std::vector<int64_t> together;
  for (int64_t n = 0; n <= std::min<int64_t>(which.most_parallel, std::ssize(outer)); ++n) together.push_back(n);
  FETTLE_TRY(const int64_t threads, t.define_knob("parallel" + which.suffix, together));
  if (threads > 0) {
    LoopRef loop = outer.front();
    if (threads > 1) {
      FETTLE_TRY(loop, fuse(s, {.loops = Loops(outer.begin(), outer.begin() + threads)}));
    }
    FETTLE_TRY_VOID(parallel(s, {.loop = loop}));
  }

  const int64_t registers = target->vector_registers;
  t.constrain("the tile fits the registers" + which.suffix, [row_knob, registers, which](const ConfigView& v) {
    const int64_t rows = row_knob.empty() ? 1 : v[row_knob].back(), wide = v["vectors" + which.suffix][0];
    return rows * wide + wide < registers;
  });
  return {};
}

Result<> nest_with_knobs(TemplateContext& t, const std::string& name) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto structure = block_structure(s.func(), *stmt.as<BlockNode>());
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  if (!structure || loops.empty()) return {};
  const int64_t lanes = std::max(1, target_of(s)->vector_lanes(structure->store.buffer->dtype.element_bytes()));
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
