#include "tune/space/rules/row_fusion.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tune/space/row_group.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

/// Up to this many vectors are written out one by one.
constexpr int64_t kMostUnrolled = 16;

/// A row of up to this many vectors stays in registers from block to block.
constexpr int64_t kMostKept = 8;

struct OwnLoop {
  LoopRef loop;
  int64_t extent = 0;
  bool reduce = false;
  int64_t stride = 0;  // in what the block writes
};

// The loops of a block inside of those around the row.
Result<std::vector<OwnLoop>> own_loops(RuleContext& ctx, BlockRef block, size_t depth) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  FETTLE_TRY(const Loops all, loops_of_block(ctx, block));
  VarMap bindings;
  for (const IterVar& iter : node->iters) bindings[iter.var.get()] = iter.binding;
  const StoreNode* store = single_store(*node);
  if (!store) return fail(ErrorCode::E230, node->name + " is not one store");
  std::vector<Expr> indices;
  for (const Expr& index : store->indices) indices.push_back(substitute(index, bindings));
  std::vector<OwnLoop> loops;
  std::vector<Var> vars;
  for (size_t i = depth; i < all.size(); ++i) {
    OwnLoop own{.loop = all[i]};
    FETTLE_TRY(own.extent, loop_extent(ctx, all[i]));
    FETTLE_TRY(const Var var, ctx.schedule.loop_var(all[i]));
    vars.push_back(var);
    for (const IterVar& iter : node->iters)
      if (iter.kind == IterKind::kReduce && uses_var(iter.binding, var.get())) own.reduce = true;
    loops.push_back(own);
  }
  const std::vector<int64_t> strides = access_strides(*store->buffer, indices, vars);
  for (size_t i = 0; i < loops.size(); ++i) loops[i].stride = strides[i];
  return loops;
}

// What one block does with one row (or with the rows of one vector).
// whole: all of the row unrolled.
Result<> schedule_part(RuleContext& ctx, const std::string& name, size_t depth, bool is_last, bool whole) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  FETTLE_TRY(std::vector<OwnLoop> loops, own_loops(ctx, block, depth));
  const bool reduces = static_cast<bool>(node->init);
  const DType dtype = single_store(*node)->buffer->dtype;
  const int64_t lanes = ctx.lanes(dtype);
  s.set_address_prefix("row_fusion/" + name);

  const auto vector = std::find_if(loops.begin(), loops.end(),
                                   [](const OwnLoop& l) { return l.stride == 1 && !l.reduce && l.extent > 1; });
  int64_t kept = 1, steps = 1;  // elements that are written; of the reduction for each of them
  for (const OwnLoop& l : loops) (l.reduce ? steps : kept) *= l.extent;
  const int64_t vectors = (kept + lanes - 1) / lanes;

  Loops order, unrolled;
  LoopRef lane;
  const auto add = [&](LoopRef loop, bool unroll_it) {
    order.push_back(loop);
    if (unroll_it) unrolled.push_back(loop);
  };
  Loops reduce;
  for (const OwnLoop& l : loops)
    if (l.reduce) {
      add(l.loop, loops.size() == 2 && (whole || steps * vectors <= kMostUnrolled));
      reduce.push_back(l.loop);
    }
  if (reduces && reduce.empty()) return fail(ErrorCode::E230, name + " has no loop to reduce over");
  const bool few = vectors <= kMostUnrolled;
  for (auto l = loops.begin(); l != loops.end(); ++l)
    if (!l->reduce && l != vector) add(l->loop, reduces || (few && !is_last));
  if (vector != loops.end()) {
    int64_t width = lanes;
    while (width / 2 >= vector->extent) width /= 2;
    if (vector->extent == width) {
      lane = vector->loop;
    } else if (reduces || few) {
      FETTLE_TRY(const Loops parts, split(s, {.loop = vector->loop, .factors = {kInfer, width}, .tail = Tail::kMask}));
      add(parts[0], true);
      lane = parts[1];
    } else {
      FETTLE_TRY(const int64_t at_once, choose(ctx, "vectors", {1, 2, 4}, 1));
      FETTLE_TRY(const Loops parts,
                 split(s, {.loop = vector->loop, .factors = {kInfer, at_once, width}, .tail = Tail::kPartition}));
      add(parts[0], whole);
      add(parts[1], true);
      lane = parts[2];
    }
    order.push_back(lane);
  }
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  for (const LoopRef& loop : unrolled) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  if (vector != loops.end()) FETTLE_TRY_VOID(vectorize(s, {.loop = lane}));
  // Accumulators and short rows stay in registers.
  if (!is_last && vectors <= (reduces ? kMostUnrolled : kMostKept) && loops.size() <= 2)
    FETTLE_TRY_VOID(set_scope(s, {.block = block, .scope = kScopeRegister}));
  if (reduces) FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = reduce.front()}).map([](BlockRef) {}));
  ctx.done.insert(name);
  ctx.done.insert(name + "_init");
  return {};
}

// Functions that take more than an instruction or two.
bool calls(const BlockNode& block) {
  bool found = false;
  walk(
      block.body, [&](const Stmt&) { return !found; },
      [&](const Expr& e) {
        const auto* call = e.as<CallNode>();
        found |= call && call->name != "sqrt" && call->name != "rsqrt";
        return !found;
      });
  return found;
}

// Whether the passes over a short row are unrolled: a loop of a dozen turns ends often, and each end is guessed wrong.
// An exponential takes longer than that, and much code.
Result<bool> unrolls_rows(RuleContext& ctx, const RowGroup& group) {
  constexpr int64_t kShortRow = 64;  // vectors
  const Func& func = ctx.schedule.func();
  const auto last = block_structure(func, *find_block(func->body, group.blocks.back()));
  int64_t rows = 1, most = 0;
  for (const size_t row : group.rows) rows *= last->extents[row];
  bool has_calls = false;
  for (const std::string& name : group.blocks) {
    const BlockNode& block = *find_block(func->body, name);
    const int64_t points = block_structure(func, block)->points();
    most = std::max(most, points);
    has_calls |= points > rows && calls(block);
  }
  const int64_t vectors = most / rows / ctx.lanes(kF32);
  if (vectors <= kMostUnrolled || vectors > kShortRow) return false;
  FETTLE_TRY(const int64_t whole, choose(ctx, "unroll_rows", {0, 1}, has_calls ? 0 : 1));
  return whole != 0;
}

// Rows that are dealt out to threads go in runs, so that the hand-over costs nothing beside a short row: the number of
// runs, a divisor of the rows, or 1.
int64_t runs_of(int64_t rows, int64_t threads) {
  constexpr int64_t kMostRuns = 32;
  if (threads <= 1 || rows < 2 * kMostRuns) return 1;
  for (int64_t runs = kMostRuns; runs >= 4 * threads; --runs)
    if (rows % runs == 0 && runs % threads == 0) return runs;
  return 1;
}

// The blocks before and behind that one which no rule has dealt with yet, as far as no product stands between: all of a
// softmax; of attention what is between its two products.
std::vector<const BlockNode*> rows_around(const RuleContext& ctx, const BlockNode& block) {
  const Func& func = ctx.schedule.func();
  std::vector<const BlockNode*> run;
  bool met = false;
  for (const BlockNode* b : blocks_of(func.root())) {
    const auto structure = block_structure(func, *b);
    if (ctx.is_done(*b) || !structure || is_matrix_product(*structure)) {
      if (met) break;
      run.clear();
      continue;
    }
    met |= b == &block;
    run.push_back(b);
  }
  return met ? run : std::vector<const BlockNode*>();
}

bool applies(const RuleContext& ctx, const BlockNode& block) {
  return row_group(ctx.schedule.func(), rows_around(ctx, block)).has_value();
}

Result<> apply(RuleContext& ctx, BlockRef any) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const BlockNode* around, block_node(ctx, any));
  const auto group = row_group(s.func(), rows_around(ctx, *around));
  if (!group) return fail(ErrorCode::E230, "the blocks have no rows in common");
  const std::string& last = group->blocks.back();
  s.set_address_prefix("row_fusion/" + last);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = last}));
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  FETTLE_TRY(const Loops loops, loops_of_block(ctx, block));
  const int64_t lanes = ctx.lanes(single_store(*node)->buffer->dtype);
  int64_t points = 0;
  for (const std::string& name : group->blocks)
    points += block_structure(s.func(), *find_block(s.func()->body, name))->points();

  FETTLE_TRY(const bool whole, unrolls_rows(ctx, *group));

  Loops rows, order;
  LoopRef side_by_side;
  bool has_side_by_side = false;
  for (size_t r = 0; r < group->rows.size(); ++r) {
    const LoopRef loop = loops[group->rows[r]];
    FETTLE_TRY(const int64_t extent, loop_extent(ctx, loop));
    if (r + 1 < group->rows.size() || !group->rows_are_contiguous) {
      const int64_t runs = r == 0 ? runs_of(extent, ctx.threads) : 1;
      if (runs > 1) {
        FETTLE_TRY(const Loops parts, split(s, {.loop = loop, .factors = {runs, kInfer}}));
        rows.insert(rows.end(), parts.begin(), parts.end());
      } else {
        rows.push_back(loop);
      }
    } else if (extent <= lanes) {
      side_by_side = loop;
      has_side_by_side = true;
    } else {
      FETTLE_TRY(const int64_t vectors, choose(ctx, "vectors", {1, 2, 4}, 1));
      FETTLE_TRY(const Loops parts,
                 split(s, {.loop = loop, .factors = {kInfer, vectors * lanes}, .tail = Tail::kMask}));
      rows.push_back(parts[0]);
      side_by_side = parts[1];
      has_side_by_side = true;
    }
  }
  order = rows;
  for (size_t i = 0; i < loops.size(); ++i)
    if (std::find(group->rows.begin(), group->rows.end(), i) == group->rows.end()) order.push_back(loops[i]);
  if (has_side_by_side) order.push_back(side_by_side);
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  if (!rows.empty())
    for (size_t b = group->blocks.size() - 1; b-- > 0;) {
      FETTLE_TRY(const BlockRef part, get_block(s, {.name = group->blocks[b]}));
      FETTLE_TRY_VOID(compute_at(s, {.block = part, .loop = rows.back(), .preserve_unit_loops = false}));
    }
  for (const std::string& name : group->blocks)
    FETTLE_TRY_VOID(schedule_part(ctx, name, rows.size(), name == last, whole));
  return points < 32768 ? Result<>() : parallelize(ctx, rows);
}

}  // namespace

constinit const SketchRule row_fusion_def = {"row_fusion", 5, applies, apply};

}  // namespace fettle
