#include "generations/autotvm/template/rows_with_knobs.h"

#include <algorithm>

#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tune/parts/structure.h"
#include "tune/space/row_group.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

// Reductions along contiguous memory: block names and steps.
std::vector<std::pair<std::string, int64_t>> along_rows(const Func& func) {
  std::vector<std::pair<std::string, int64_t>> found;
  for (const BlockNode* block : blocks_of(func.root())) {
    if (!block->init) continue;
    const auto structure = block_structure(func, *block);
    if (!structure || is_matrix_product(*structure)) continue;
    for (size_t i = 0; i < structure->n_iters(); ++i) {
      const bool contiguous =
          structure->reduce[i] &&
          std::ranges::any_of(structure->loads, [&](const AccessPattern& load) { return load.strides[i] == 1; });
      if (contiguous) found.emplace_back(block->name, structure->extents[i]);
    }
  }
  return found;
}

constexpr int64_t kMostKept = 8;       // vectors in registers from block to block
constexpr int64_t kMostUnrolled = 64;  // vectors of a whole row
constexpr int64_t kWidest = 4;         // vectors that a reduction along a row takes in one step

struct OwnLoop {
  LoopRef loop;
  int64_t extent = 0;
  int64_t stride = 0;  // in what the block writes
  bool reduces = false, rows = false;
};

/// One of the blocks.
struct Part {
  std::string name;
  std::vector<size_t> rows;  // its iterators that are rows
  int64_t vectors = 0;       // of a row of what it writes
  bool reduces = false, last = false;
  int64_t at_once = 1;  // vectors of a long row
  size_t depth = 0;     // loops around what it does with a row, or with several

  bool is_long() const { return vectors > kMostKept && !reduces; }
};

Result<std::vector<OwnLoop>> own_loops(Schedule& s, const Part& part, BlockRef block) {
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto& node = *stmt.as<BlockNode>();
  FETTLE_TRY(const Loops all, get_loops(s, {.block = block}));
  const StoreNode* store = single_store(node);
  if (!store) return fail(ErrorCode::E230, part.name + " is not one store");
  VarMap bindings;
  for (const IterVar& iter : node.iters) bindings[iter.var.get()] = iter.binding;
  std::vector<Expr> indices;
  for (const Expr& index : store->indices) indices.push_back(substitute(index, bindings));
  std::vector<OwnLoop> loops;
  std::vector<Var> vars;
  for (size_t i = part.depth; i < all.size(); ++i) {
    FETTLE_TRY(const Stmt held, s.loop(all[i]));
    const auto* loop = held.as<ForNode>();
    const int64_t* extent = as_int(loop->extent);
    OwnLoop own{.loop = all[i], .extent = extent ? *extent : 0};
    for (size_t n = 0; n < node.iters.size(); ++n) {
      if (!uses_var(node.iters[n].binding, loop->var.get())) continue;
      own.reduces |= node.iters[n].kind == IterKind::kReduce;
      own.rows |= std::ranges::find(part.rows, n) != part.rows.end();
    }
    loops.push_back(own);
    vars.push_back(loop->var);
  }
  const std::vector<int64_t> strides = access_strides(*store->buffer, indices, vars);
  for (size_t i = 0; i < loops.size(); ++i) loops[i].stride = strides[i];
  return loops;
}

/// How all blocks walk through rows.
struct Passes {
  bool whole = false;        // unrolled
  bool interleaved = false;  // a few vectors of each of several rows in turn
};

// What one block does with one row, or with several at a time. How many vectors of it may be kept in registers: reductions
// and short rows; 0: none.
Result<int64_t> with_rows(Schedule& s, const Part& part, const Passes& passes) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = part.name}));
  FETTLE_TRY(const std::vector<OwnLoop> loops, own_loops(s, part, block));
  const int64_t lanes = lanes_of(s);
  Loops order, unrolled;
  const auto add = [&](LoopRef loop, bool unroll_it) {
    order.push_back(loop);
    if (unroll_it) unrolled.push_back(loop);
  };
  const OwnLoop* vector = nullptr;
  const OwnLoop* steps = nullptr;
  int64_t kept = 1;
  bool others = false;
  for (const OwnLoop& l : loops) {
    if (l.reduces) {
      others |= steps != nullptr;
      steps = &l;
    } else if (!l.rows && l.stride == 1 && l.extent > 1) {
      vector = &l;
    } else {
      others |= !l.rows;
    }
    if (!l.reduces) kept *= l.extent;
  }
  constexpr int64_t kFewSteps = 16;
  // What is in registers is addressed by constants.
  if (steps) add(steps->loop, passes.whole || steps->extent <= kFewSteps);
  const bool is_long = vector && vector->extent > kMostKept * lanes;
  Loops lane;
  if (vector) {
    int64_t width = lanes;
    while (width / 2 >= vector->extent) width /= 2;
    std::vector<IntRef> factors = {kInfer, width};
    if (is_long) factors.insert(factors.begin() + 1, part.at_once);
    const Tail tail = is_long ? Tail::kPartition : Tail::kMask;
    FETTLE_TRY(lane, split(s, {.loop = vector->loop, .factors = factors, .tail = tail}));
  }
  const auto add_rows = [&] {
    for (const OwnLoop& l : loops)
      if (l.rows) add(l.loop, true);
  };
  if (is_long && !passes.interleaved) add_rows();
  if (is_long) add(lane[0], passes.whole);
  if (!is_long || passes.interleaved) add_rows();
  if (vector) {
    add(lane[lane.size() - 2], true);
    order.push_back(lane.back());
  }
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  for (const LoopRef& loop : unrolled) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  if (vector) FETTLE_TRY_VOID(vectorize(s, {.loop = lane.back()}));
  if (steps) FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = steps->loop}).map([](BlockRef) {}));
  return !part.last && kept <= kMostKept * lanes && !others ? (kept + lanes - 1) / lanes : 0;
}

// Reductions first, as far as registers go: what stays in memory is read and written at each of their steps.
Result<> keep_in_registers(Schedule& s, const std::vector<Part>& parts, const std::vector<int64_t>& kept) {
  int64_t left = target_or_usual(s)->vector_registers;
  for (const bool reductions : {true, false})
    for (size_t i = 0; i < parts.size(); ++i) {
      // What a reduction reads is rounded up to its steps.
      const int64_t taken = reductions || kept[i] == 1 ? kept[i] : (kept[i] + kWidest - 1) / kWidest * kWidest;
      if (taken == 0 || taken > left || parts[i].reduces != reductions) continue;
      left -= taken;
      FETTLE_TRY(const BlockRef block, get_block(s, {.name = parts[i].name}));
      FETTLE_TRY_VOID(set_scope(s, {.block = block, .scope = kScopeRegister}));
    }
  return {};
}

// The reduction of which the block works out a part, or null.
const std::string* total_of(const std::string& block, const std::vector<LaneSums>& lanes) {
  for (const LaneSums& sums : lanes)
    if (std::ranges::find(sums.parts, block) != sums.parts.end()) return &sums.total;
  return nullptr;
}

// The parts of a group, before anything is moved.
std::vector<Part> parts_of(const Func& func, const RowGroup& group, int64_t lanes) {
  std::vector<Part> parts;
  for (size_t b = 0; b < group.blocks.size(); ++b) {
    const BlockNode* node = find_block(func->body, group.blocks[b]);
    const auto structure = block_structure(func, *node);
    Part part{.name = node->name, .reduces = bool(node->init), .last = b + 1 == group.blocks.size()};
    int64_t elements = 1;
    for (size_t i = 0; i < structure->n_iters(); ++i) {
      const bool row = std::ranges::find(group.rows_of[b], i) != group.rows_of[b].end();
      if (!row && !structure->reduce[i]) elements *= structure->extents[i];
      for (size_t n = 0; row && n < node->iters.size(); ++n)
        if (uses_var(node->iters[n].binding, structure->vars[i].get())) part.rows.push_back(n);
    }
    part.vectors = (elements + lanes - 1) / lanes;
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

bool works_on_rows(const Func& func) {
  if (!func->body.as<BlockNode>()) return false;
  const auto group = row_group(func);
  return group && !group->rows_are_contiguous && !group->rows.empty();
}

RowReductions row_reductions(const Func& func) {
  RowReductions found;
  for (const BlockNode* block : blocks_of(func.root())) {
    const StoreNode* store = block->init ? single_store(*block) : nullptr;
    const auto* value = store ? store->value.as<BinaryNode>() : nullptr;
    if (!value) continue;
    found.maxima += value->op == BinaryOp::kMax ? 1 : 0;
    found.sums += value->op == BinaryOp::kAdd ? 1 : 0;
  }
  return found;
}

Result<std::vector<LaneSums>> lanes_with_knobs(TemplateContext& t) {
  Schedule& s = t.schedule();
  const int64_t lanes = lanes_of(s);
  std::vector<LaneSums> found;
  for (const auto& [name, extent] : along_rows(s.func())) {
    std::vector<int64_t> wide;
    for (int64_t n = 1; n <= kWidest; n *= 2)
      if (n * lanes <= extent) wide.push_back(n);
    if (wide.empty()) continue;
    FETTLE_TRY(const int64_t vectors, t.define_knob("vectors_" + name, wide));
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY(std::vector<BlockRef> parts,
               reformulate(s, {.block = block, .kind = "split_reduction", .numbers = {vectors * lanes, 1}}));
    FETTLE_TRY(const std::vector<BlockRef> halves, reformulate(s, {.block = parts[1], .kind = "pairwise_reduction"}));
    parts.pop_back();
    parts.insert(parts.end(), halves.begin(), halves.end() - 1);
    LaneSums& sums = found.emplace_back(name);
    for (const BlockRef& part : parts) {
      FETTLE_TRY(const Stmt stmt, s.block(part));
      sums.parts.push_back(stmt.as<BlockNode>()->name);
    }
  }
  return found;
}

Result<> reciprocal_with_knobs(TemplateContext& t, const std::string& name) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const int64_t reciprocal, t.define_knob("reciprocal", {0, 1}));
  if (!reciprocal) return {};
  Schedule trial = s;
  FETTLE_TRY(const BlockRef block, get_block(trial, {.name = name}));
  if (reformulate(trial, {.block = block, .kind = "shared_reciprocal"})) s = std::move(trial);
  return {};
}

Result<Loops> fuse_rows_with_knobs(TemplateContext& t, const std::vector<std::string>& blocks, const RowKnobs& which) {
  Schedule& s = t.schedule();
  std::vector<const BlockNode*> nodes;
  for (const BlockNode* node : blocks_of(s.func().root()))
    if (std::ranges::find(blocks, node->name) != blocks.end()) nodes.push_back(node);
  const auto group = row_group(s.func(), nodes);
  if (!group || group->rows.empty()) return fail(ErrorCode::E230, "the blocks have no rows in common");
  std::vector<Part> parts = parts_of(s.func(), *group, lanes_of(s));
  const auto last = block_structure(s.func(), *nodes.back());

  // --- knobs
  int64_t longest = 0;
  for (Part& part : parts) {
    longest = std::max(longest, part.vectors);
    if (!part.is_long()) continue;
    FETTLE_TRY(part.at_once, t.define_knob("unroll_" + part.name, {1, 2, 4}));
  }
  size_t iterating = 0;
  for (const size_t row : group->rows) iterating += last->extents[row] > 1 ? 1 : 0;
  const int64_t inner = last->extents[group->rows.back()];
  int64_t at_once = 1, runs = 0;
  Passes passes;
  if (which.several) {
    std::vector<int64_t> counts = {1};
    if (inner >= 2) counts.push_back(2);
    FETTLE_TRY(at_once, t.define_knob("rows", counts));
    counts = {0};
    for (int64_t n = 2; n <= 64 && iterating == 1; n *= 2)
      if (2 * n <= inner) counts.push_back(n);
    FETTLE_TRY(runs, t.define_knob("runs", counts));
    FETTLE_TRY(const int64_t unrolled,
               t.define_knob("whole", longest > kMostKept && longest <= kMostUnrolled ? std::vector<int64_t>{0, 1}
                                                                                      : std::vector<int64_t>{0}));
    passes.whole = unrolled != 0;
    FETTLE_TRY(const int64_t interleaved, t.define_knob("interleaved", {0, 1}));
    passes.interleaved = interleaved != 0;
    t.constrain("one row is not interleaved", [](const ConfigView& v) { return v["interleaved"][0] < v["rows"][0]; });
    t.constrain("several whole rows are not too much code", [longest](const ConfigView& v) {
      return v["whole"][0] == 0 || v["rows"][0] * longest <= 2 * kMostUnrolled;
    });
  }

  // --- the loop over rows
  FETTLE_TRY(const BlockRef out, get_block(s, {.name = group->blocks.back()}));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = out}));
  Loops rows, order;
  for (const size_t row : group->rows) rows.push_back(loops[row]);
  const LoopRef cut = rows.back();
  rows.pop_back();
  Loops pieces = {cut};
  if (at_once > 1) {
    const Tail tail = inner % at_once == 0 ? Tail::kExact : Tail::kPartition;
    FETTLE_TRY(pieces, split(s, {.loop = cut, .factors = {kInfer, at_once}, .tail = tail}));
  }
  if (runs > 0) {
    const Tail tail = (inner + at_once - 1) / at_once % runs == 0 ? Tail::kExact : Tail::kGuard;
    FETTLE_TRY(const Loops dealt, split(s, {.loop = pieces[0], .factors = {runs, kInfer}, .tail = tail}));
    pieces.erase(pieces.begin());
    pieces.insert(pieces.begin(), dealt.begin(), dealt.end());
  }
  rows.insert(rows.end(), pieces.begin(), pieces.end());
  order = rows;
  for (size_t i = 0; i < loops.size(); ++i)
    if (std::ranges::find(group->rows, i) == group->rows.end()) order.push_back(loops[i]);
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  if (at_once > 1) rows.pop_back();
  for (size_t b = parts.size() - 1; b-- > 0;) {
    const std::string* total = at_once > 1 ? total_of(parts[b].name, which.lanes) : nullptr;
    LoopRef around = rows.back();
    parts[b].depth = rows.size();
    if (total) {
      FETTLE_TRY(const BlockRef sum, get_block(s, {.name = *total}));
      FETTLE_TRY(const Loops own, get_loops(s, {.block = sum}));
      around = own.back();
      parts[b].depth = own.size();
    }
    FETTLE_TRY(const BlockRef part, get_block(s, {.name = parts[b].name}));
    FETTLE_TRY_VOID(compute_at(s, {.block = part, .loop = around, .preserve_unit_loops = false}));
  }
  parts.back().depth = rows.size();
  std::vector<int64_t> kept(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    FETTLE_TRY(kept[i], with_rows(s, parts[i], passes));
  }
  FETTLE_TRY_VOID(keep_in_registers(s, parts, kept));
  Loops found;
  for (const LoopRef& loop : rows) {
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    if (!found.empty() || !is_one(stmt.as<ForNode>()->extent)) found.push_back(loop);
  }
  return found.empty() ? Loops{rows.front()} : found;
}

Result<> rows_with_knobs(TemplateContext& t) {
  FETTLE_TRY(const std::vector<LaneSums> lanes, lanes_with_knobs(t));
  FETTLE_TRY_VOID(reciprocal_with_knobs(t, blocks_of(t.schedule().func().root()).back()->name));
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(t.schedule().func().root())) names.push_back(block->name);
  FETTLE_TRY(const Loops rows, fuse_rows_with_knobs(t, names, {.lanes = lanes}));
  FETTLE_TRY_VOID(t.define_annotate("parallel", {rows.front()}, {.policy = AnnotateOptions::Policy::kTryParallel}));
  t.constrain("runs are for threads", [](const ConfigView& v) {
    return v["runs"][0] == 0 || v["parallel"][0] == static_cast<int64_t>(LoopNote::kParallel);
  });
  return {};
}

}  // namespace fettle
