#include "tune/parts/rows.h"

#include <algorithm>

#include "analysis/sites.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/loops.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

bool contains(const std::vector<size_t>& numbers, size_t number) {
  return std::ranges::find(numbers, number) != numbers.end();
}

// The loops of a block inside of those around the row.
Result<std::vector<RowLoop>> own_loops(Schedule& s, const RowPart& part, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  FETTLE_TRY(const Loops all, get_loops(s, {.block = block}));
  const StoreNode* store = single_store(*node);
  if (!store) return fail(ErrorCode::E230, part.name + " is not one store");
  const VarMap bindings = binding_map(*node);
  std::vector<Expr> indices;
  for (const Expr& index : store->indices) indices.push_back(substitute(index, bindings));
  std::vector<RowLoop> loops;
  std::vector<Var> vars;
  for (size_t i = part.depth; i < all.size(); ++i) {
    RowLoop own{.loop = all[i]};
    FETTLE_TRY(const Extent extent, extent_of_loop(s, all[i]));
    own.extent = extent.value;
    own.open = !extent.constant;
    FETTLE_TRY(const Var var, s.loop_var(all[i]));
    for (size_t n = 0; n < node->iters.size(); ++n) {
      if (!uses_var(node->iters[n].binding, var.get())) continue;
      own.reduces |= node->iters[n].kind == IterKind::kReduce;
      own.rows |= contains(part.row_iters, n);
    }
    vars.push_back(var);
    loops.push_back(own);
  }
  const std::vector<int64_t> strides = access_strides(*store->buffer, indices, vars, typical_values(s.func()));
  for (size_t i = 0; i < loops.size(); ++i) loops[i].stride = strides[i];
  return loops;
}

}  // namespace

Result<std::vector<RowPart>> row_parts(const Func& func, const RowGroup& group, int64_t lanes) {
  std::vector<RowPart> parts(group.blocks.size());
  for (size_t b = group.blocks.size(); b-- > 0;) {
    const BlockNode* block = find_block(func->body, group.blocks[b]);
    RowPart& part = parts[b] = {.name = group.blocks[b], .head = b};
    part.reduces = static_cast<bool>(block->init);
    part.last = b + 1 == group.blocks.size();
    const StoreNode* store = single_store(*block);
    const auto structure = block_structure(func, *block, Extents::kOpen);
    if (!store || !structure) return fail(ErrorCode::E230, part.name + " is not one store");
    int64_t elements = 1;
    for (size_t i = 0; i < structure->n_iters(); ++i) {
      const bool row = contains(group.rows_of[b], i);
      if (!row && !structure->reduce[i]) elements *= structure->extents[i];
      // Rows that lie side by side are lanes, and no rows to be worked on at once.
      for (size_t n = 0; row && !group.rows_are_contiguous && n < block->iters.size(); ++n)
        if (uses_var(block->iters[n].binding, structure->vars[i].get())) part.row_iters.push_back(n);
    }
    part.vectors = (elements + lanes - 1) / lanes;
    const std::vector<const BlockNode*> readers = consumers_of(func.root(), store->buffer.get());
    if (readers.size() == 1 && combines_itself(*readers.front())) {
      const auto reader = std::ranges::find(parts, readers.front()->name, &RowPart::name);
      if (reader != parts.end()) part.head = reader->head;
    }
  }
  return parts;
}

Result<Loops> fuse_rows(Schedule& s, const RowGroup& group, std::vector<RowPart>& parts,
                        const FuseRowsOptions& options) {
  FETTLE_TRY(const BlockRef last, get_block(s, {.name = group.blocks.back()}));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = last}));
  Loops rows;
  std::optional<LoopRef> together, side_by_side;
  for (size_t r = 0; r < group.rows.size(); ++r) {
    LoopRef loop = loops[group.rows[r]];
    FETTLE_TRY(const Extent extent, extent_of_loop(s, loop));
    const bool innermost = r + 1 == group.rows.size();
    if (innermost && group.rows_are_contiguous) {
      side_by_side = loop;
      if (options.side_by_side == 0) continue;
      FETTLE_TRY(const Loops cut,
                 split(s, {.loop = loop, .factors = {kInfer, options.side_by_side}, .tail = Tail::kMask}));
      rows.push_back(cut[0]);
      side_by_side = cut[1];
      continue;
    }
    const int64_t own = innermost ? options.at_once : 1;
    if (own > 1) {
      const Tail tail = extent.constant && extent.value % own == 0 ? Tail::kExact : Tail::kPartition;
      FETTLE_TRY(const Loops cut, split(s, {.loop = loop, .factors = {kInfer, own}, .tail = tail}));
      loop = cut[0];
      together = cut[1];
    }
    if (r == options.run_row && options.runs > 1) {
      const int64_t pieces = (extent.value + own - 1) / own, per_run = (pieces + options.runs - 1) / options.runs;
      const bool exact = extent.constant && options.runs * per_run == pieces;
      const IntRef runs = extent.constant ? options.runs : kInfer;
      FETTLE_TRY(const Loops cut,
                 split(s, {.loop = loop, .factors = {runs, per_run}, .tail = exact ? Tail::kExact : Tail::kGuard}));
      rows.push_back(cut[0]);
      loop = cut[1];
    }
    rows.push_back(loop);
  }
  Loops order = rows;
  if (together) order.push_back(*together);
  for (size_t i = 0; i < loops.size(); ++i)
    if (!contains(group.rows, i)) order.push_back(loops[i]);
  if (side_by_side) order.push_back(*side_by_side);
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));

  for (RowPart& part : parts) part.depth = rows.size();
  std::vector<LoopRef> own_row(parts.size());  // of several rows, of those that others are steps towards
  if (together) own_row.back() = *together;
  for (size_t b = rows.empty() ? 0 : parts.size() - 1; b-- > 0;) {
    const bool is_step = together && parts[b].head != b && !(options.sums_at_once && parts[b].reduces);
    FETTLE_TRY(const BlockRef part, get_block(s, {.name = parts[b].name}));
    FETTLE_TRY_VOID(compute_at(
        s, {.block = part, .loop = is_step ? own_row[parts[b].head] : rows.back(), .preserve_unit_loops = false}));
    parts[b].depth += is_step ? 1 : 0;
    if (!together || is_step) continue;
    FETTLE_TRY(const std::vector<RowLoop> own, own_loops(s, parts[b], part));
    const auto row = std::ranges::find_if(own, &RowLoop::rows);
    if (row == own.end()) return fail(ErrorCode::E230, parts[b].name + " has no loop over rows");
    own_row[b] = row->loop;
  }
  return rows;
}

int64_t RowPass::n_rows() const {
  int64_t count = 1;
  for (const RowLoop& row : rows) count *= row.extent;
  return count;
}

Result<RowPass> row_pass(Schedule& s, const RowPart& part, int64_t lanes) {
  RowPass pass{.name = part.name};
  FETTLE_TRY(pass.block, get_block(s, {.name = part.name}));
  FETTLE_TRY(const std::vector<RowLoop> loops, own_loops(s, part, pass.block));
  for (const RowLoop& loop : loops) {
    if (loop.rows) {
      pass.rows.push_back(loop);
      continue;
    }
    (loop.reduces ? pass.steps : pass.elements) *= loop.extent;
    pass.open |= loop.open && !loop.reduces;
    if (loop.reduces)
      pass.reduce.push_back(loop);
    else if (!pass.vector && loop.stride == 1 && loop.extent > 1)
      pass.vector = loop;
    else
      pass.others.push_back(loop);
  }
  pass.vectors = (pass.elements + lanes - 1) / lanes;
  pass.width = lanes;
  while (pass.vector && !pass.vector->open && pass.width / 2 >= pass.vector->extent) pass.width /= 2;
  return pass;
}

Result<std::optional<BlockRef>> schedule_row_pass(Schedule& s, const RowPass& pass, const RowPassOptions& options) {
  Loops order, unrolled;
  const auto add = [&](LoopRef loop, bool unroll_it) {
    order.push_back(loop);
    if (unroll_it) unrolled.push_back(loop);
  };
  const auto add_rows = [&](RowsAt here) {
    for (const RowLoop& row : pass.rows)
      if (here == options.rows) add(row.loop, true);
  };
  add_rows(RowsAt::kOutside);
  for (const RowLoop& loop : pass.reduce) add(loop.loop, options.unroll_steps);
  for (const RowLoop& loop : pass.others) add(loop.loop, options.unroll_others);
  add_rows(RowsAt::kInsideSteps);
  if (pass.vector) {
    Loops lane = {pass.vector->loop};
    if (pass.vector->open || pass.vector->extent != pass.width || options.cut_one_vector) {
      SplitArgs cut{.loop = lane[0], .factors = {kInfer, pass.width}, .tail = options.tail};
      if (options.at_once > 0) cut.factors.insert(cut.factors.begin() + 1, options.at_once);
      FETTLE_TRY(lane, split(s, cut));
    }
    if (lane.size() == 3) add(lane[0], options.unroll_turns);
    add_rows(RowsAt::kInsideBlocks);
    if (lane.size() > 1) add(lane[lane.size() - 2], true);
    add(lane.back(), false);
  }
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  for (const LoopRef& loop : unrolled) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  if (pass.vector) FETTLE_TRY_VOID(vectorize(s, {.loop = order.back()}));
  if (options.in_registers) FETTLE_TRY_VOID(set_scope(s, {.block = pass.block, .scope = kScopeRegister}));
  FETTLE_TRY(const BlockNode* node, block_node(s, pass.block));
  if (!node->init) return std::optional<BlockRef>();
  // A sum of one term has no loop of its own.
  if (order.empty()) return fail(ErrorCode::E230, pass.name + " has no loop to reduce over");
  const LoopRef around = pass.reduce.empty() ? order.front() : pass.reduce.front().loop;
  return decompose_reduction(s, {.block = pass.block, .loop = around}).map([](BlockRef b) { return std::optional(b); });
}

Result<> in_one_pass(Schedule& s, const RowPart& made, const RowPart& sum, int64_t lanes) {
  FETTLE_TRY(const BlockRef made_block, get_block(s, {.name = made.name}));
  FETTLE_TRY(const BlockRef sum_block, get_block(s, {.name = sum.name}));
  FETTLE_TRY(const std::vector<RowLoop> written, own_loops(s, made, made_block));
  FETTLE_TRY(std::vector<RowLoop> summed, own_loops(s, sum, sum_block));
  std::ranges::stable_sort(summed, {}, &RowLoop::reduces);
  if (written.size() != 1 || summed.size() != 2 || summed[0].reduces || !summed[1].reduces || summed[0].open ||
      summed[0].extent % lanes != 0)
    return fail(ErrorCode::E230, made.name + " and " + sum.name + " do not walk alike");
  FETTLE_TRY(
      const Loops own,
      split(s, {.loop = written[0].loop, .factors = {kInfer, summed[0].extent / lanes, lanes}, .tail = Tail::kMask}));
  FETTLE_TRY(const Loops parts, split(s, {.loop = summed[0].loop, .factors = {kInfer, lanes}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {summed[1].loop, parts[0], parts[1]}}));
  for (const LoopRef& loop : {own[1], parts[0]}) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  for (const LoopRef& loop : {own[2], parts[1]}) FETTLE_TRY_VOID(vectorize(s, {.loop = loop}));
  FETTLE_TRY(const LoopRef pass, merge(s, {.loops = {own[0], summed[1].loop}}));
  FETTLE_TRY_VOID(set_scope(s, {.block = sum_block, .scope = kScopeRegister}));
  return decompose_reduction(s, {.block = sum_block, .loop = pass}).map([](BlockRef) {});
}

}  // namespace fettle
