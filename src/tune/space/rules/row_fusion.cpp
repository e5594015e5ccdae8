// Programs that work row by row: each row goes through all blocks while it is in the first-level cache.
//
//   for i: for k: M[i] max= X[i, k]        parallel i:
//   for i: for k: E[i, k] = exp(…)     →     for k: M max= X[i, k]      (in registers, one part a lane, then by halves)
//   for i: for k: S[i] += E[i, k]            for k: E[k] = exp(…)       (a row that stays in cache)
//   for i: for k: Y[i, k] = E[i, k] / S[i]   for k: S += E[k]
//                                            for k: Y[i, k] = E[k] * (1 / S)
//
// Several rows may be worked on at once: pass by pass, so that one need not wait for another's sums.
//
//   parallel runs of rows: for i0: for i in 2: M[i] max= X[i0 * 2 + i, k] …
//                                  for i in 2: …
//
// Where the rows themselves are contiguous in memory (softmax over channels of an image), vectors hold rows side by
// side.

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/merge.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "target/caches.h"
#include "tune/parts/threads.h"
#include "tune/space/row_group.h"
#include "tune/space/rules/rules.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

/// Up to this many vectors are written out one by one.
constexpr int64_t kMostUnrolled = 16;

/// A row of up to this many vectors stays in registers from block to block.
constexpr int64_t kMostKept = 8;

/// The same of all the rows that are worked on at once, where these are unrolled as a whole.
constexpr int64_t kMostOfRows = 128;

struct OwnLoop {
  LoopRef loop;
  int64_t extent = 0;
  bool reduce = false;
  bool row = false;    // of the rows that are worked on at once
  int64_t stride = 0;  // in what the block writes
};

// One block of the group.
struct Part {
  std::string name;
  size_t row_iter = 0;  // its iterator that is the last of the rows
  size_t head = 0;      // which block it is a step towards: one that adds up in pairs; else itself
};

// The loops of a block inside of those around the row.
Result<std::vector<OwnLoop>> own_loops(RuleContext& ctx, const Part& part, BlockRef block, size_t depth, bool several) {
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
    own.row = several && uses_var(node->iters[part.row_iter].binding, var.get());
    loops.push_back(own);
  }
  const std::vector<int64_t> strides = access_strides(*store->buffer, indices, vars);
  for (size_t i = 0; i < loops.size(); ++i) loops[i].stride = strides[i];
  return loops;
}

// What one block does with one row (or with the rows of one vector, or with several rows).
// whole: all of the row unrolled.
Result<> schedule_part(RuleContext& ctx, const Part& part, size_t depth, bool is_last, bool whole, bool several) {
  Schedule& s = ctx.schedule;
  const std::string& name = part.name;
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  FETTLE_TRY(std::vector<OwnLoop> loops, own_loops(ctx, part, block, depth, several));
  const bool reduces = static_cast<bool>(node->init);
  const DType dtype = single_store(*node)->buffer->dtype;
  const int64_t lanes = ctx.lanes(dtype);
  s.set_address_prefix("row_fusion/" + name);

  // Of several rows each has its sums worked out by itself, and all are written side by side. They are unrolled, so that
  // what one waits for is hidden behind the others.
  std::optional<OwnLoop> row;
  if (const auto l = std::ranges::find_if(loops, &OwnLoop::row); l != loops.end()) {
    row = *l;
    loops.erase(l);
  }

  const auto vector = std::find_if(loops.begin(), loops.end(),
                                   [](const OwnLoop& l) { return l.stride == 1 && !l.reduce && l.extent > 1; });
  int64_t kept = 1, steps = 1;  // elements of a row that are written; of the reduction for each of them
  for (const OwnLoop& l : loops) (l.reduce ? steps : kept) *= l.extent;
  const int64_t vectors = (kept + lanes - 1) / lanes;

  Loops order, unrolled;
  LoopRef lane;
  const bool few = vectors <= kMostUnrolled;
  const bool is_long = vector != loops.end() && vector->extent > lanes && !reduces && !few;
  const bool innermost_rows = row && is_last && is_long;
  const auto add = [&](LoopRef loop, bool unroll_it) {
    order.push_back(loop);
    if (unroll_it) unrolled.push_back(loop);
  };
  if (row && !innermost_rows) add(row->loop, true);
  Loops reduce;
  for (const OwnLoop& l : loops)
    if (l.reduce) {
      add(l.loop, loops.size() == 2 && (whole || steps * vectors <= kMostUnrolled));
      reduce.push_back(l.loop);
    }
  for (auto l = loops.begin(); l != loops.end(); ++l)
    if (!l->reduce && l != vector) add(l->loop, reduces || (few && !is_last));
  if (vector != loops.end()) {
    int64_t width = lanes;
    while (width / 2 >= vector->extent) width /= 2;
    if (vector->extent == width) {
      lane = vector->loop;
    } else if (!is_long) {
      FETTLE_TRY(const Loops parts, split(s, {.loop = vector->loop, .factors = {kInfer, width}, .tail = Tail::kMask}));
      add(parts[0], true);
      lane = parts[1];
    } else {
      FETTLE_TRY(const int64_t at_once, choose(ctx, "vectors", {1, 2, 4}, 1));
      FETTLE_TRY(const Loops parts,
                 split(s, {.loop = vector->loop, .factors = {kInfer, at_once, width}, .tail = Tail::kPartition}));
      add(parts[0], whole);
      if (innermost_rows) add(row->loop, true);
      add(parts[1], true);
      lane = parts[2];
    }
    order.push_back(lane);
  }
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  for (const LoopRef& loop : unrolled) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  if (vector != loops.end()) FETTLE_TRY_VOID(vectorize(s, {.loop = lane}));
  // Accumulators and short rows stay in registers.
  const int64_t held = vectors * (row ? row->extent : 1);
  const bool few_loops = reduces ? loops.size() - reduce.size() <= 1 : loops.size() <= 2;
  if (!is_last && held <= (reduces ? kMostUnrolled : kMostKept) && few_loops)
    FETTLE_TRY_VOID(set_scope(s, {.block = block, .scope = kScopeRegister}));
  if (reduces) {
    // A sum of one term has no loop of its own.
    const Loops& around = reduce.empty() ? order : reduce;
    if (around.empty()) return fail(ErrorCode::E230, name + " has no loop to reduce over");
    FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = around.front()}).map([](BlockRef) {}));
  }
  ctx.done.insert(name);
  ctx.done.insert(name + "_init");
  return {};
}

// Both blocks in one pass over the row; E230 where they do not walk alike.
//   for v: E[r, v] = …    for k: S_partial[r, p] += E[r, k * lanes + p]
//   →
//   for k: E[r, k * lanes + p] = …, S_partial[r, p] += E[r, k * lanes + p]
Result<> in_one_pass(RuleContext& ctx, const Part& made, const Part& sum, size_t depth) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const BlockRef made_block, get_block(s, {.name = made.name}));
  FETTLE_TRY(const BlockRef sum_block, get_block(s, {.name = sum.name}));
  FETTLE_TRY(const std::vector<OwnLoop> written, own_loops(ctx, made, made_block, depth, false));
  FETTLE_TRY(std::vector<OwnLoop> summed, own_loops(ctx, sum, sum_block, depth, false));
  std::ranges::stable_sort(summed, {}, &OwnLoop::reduce);
  FETTLE_TRY(const BlockNode* node, block_node(ctx, made_block));
  const int64_t lanes = ctx.lanes(single_store(*node)->buffer->dtype);
  if (written.size() != 1 || summed.size() != 2 || summed[0].reduce || !summed[1].reduce ||
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
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = sum_block, .loop = pass}).map([](BlockRef) {}));
  for (const std::string& name : {made.name, sum.name, sum.name + "_init"}) ctx.done.insert(name);
  return {};
}

// Whether the sum over a long row is taken along while the row is worked out: it is read once less. Then both are done.
Result<bool> sums_in_passing(RuleContext& ctx, const Part& made, const Part& sum, size_t depth) {
  const Func& func = ctx.schedule.func();
  const BlockNode *made_node = find_block(func->body, made.name), *sum_node = find_block(func->body, sum.name);
  const Buffer row = single_store(*made_node)->buffer;
  const auto structure = block_structure(func, *made_node);
  if (!structure || made_node->init || !sum_node->init) return false;
  if (std::ranges::find(sum_node->reads, row, &Region::buffer) == sum_node->reads.end()) return false;
  int64_t elements = 1;
  for (size_t i = depth; i < structure->n_iters(); ++i) elements *= structure->extents[i];
  if (elements <= kMostUnrolled * ctx.lanes(row->dtype)) return false;
  RuleContext trial = ctx;
  if (!in_one_pass(trial, made, sum, depth)) return false;
  ctx.schedule.set_address_prefix("row_fusion/" + sum.name);
  FETTLE_TRY(const int64_t passing, choose(ctx, "in_passing", {0, 1}, 1));
  if (passing != 0) FETTLE_TRY_VOID(in_one_pass(ctx, made, sum, depth));
  return passing != 0;
}

// What is done with all rows.
struct RowWork {
  int64_t rows = 1, row = 1;  // elements of a row
  double alone_ns = 0;        // of one thread, all passes
  bool has_calls = false;     // for each element
  bool keeps_rows = false;    // of what later passes read
};

RowWork row_work(const RuleContext& ctx, const RowGroup& group) {
  const Func& func = ctx.schedule.func();
  RowWork work;
  const auto last = block_structure(func, *find_block(func->body, group.blocks.back()));
  for (const size_t row : group.rows) work.rows *= last->extents[row];
  for (const std::string& name : group.blocks) {
    const BlockNode& block = *find_block(func->body, name);
    const auto structure = block_structure(func, block);
    const int64_t points = structure->points(), calls = calls_of(block);
    work.alone_ns += alone_ns(*ctx.target, *structure, calls);
    work.row = std::max(work.row, points / work.rows);
    work.has_calls |= points > work.rows && calls > 0;
    work.keeps_rows |= !block.init && points == work.rows * work.row && name != group.blocks.back();
  }
  return work;
}

// Rows that are worked on at once where there are several: it hides what each waits for, and leaves enough registers.
// Twice as many of rows of a few vectors, which wait for most of their time.
constexpr int64_t kUsualRows = 2;
constexpr int64_t kFewVectors = 7;

bool has_several_rows(const Func& func, const RowGroup& group) {
  if (group.rows_are_contiguous || group.rows.empty()) return false;
  return block_structure(func, *find_block(func->body, group.blocks.back()))->extents[group.rows.back()] >=
         2 * kUsualRows;
}

// Whether the passes over a short row are unrolled: a loop of a dozen turns ends often, and each end is guessed wrong.
// Several rows at once wait less for that, and an exponential takes longer, and much code.
Result<bool> unrolls_rows(RuleContext& ctx, const RowGroup& group, const RowWork& work) {
  constexpr int64_t kShortRow = 64;  // vectors
  const int64_t vectors = work.row / ctx.lanes(kF32);
  if (vectors <= kMostUnrolled || vectors > kShortRow) return false;
  FETTLE_TRY(const int64_t whole, choose(ctx, "unroll_rows", {0, 1},
                                         work.has_calls || has_several_rows(ctx.schedule.func(), group) ? 0 : 1));
  return whole != 0;
}

// Rows that are worked on at once. One row waits for its sums, from one pass to the next and at the end of each for its
// lanes to be added up. All of them stay in the first-level cache. `whole`: each is unrolled.
Result<int64_t> rows_at_once(RuleContext& ctx, const RowGroup& group, const RowWork& work, bool whole) {
  const Func& func = ctx.schedule.func();
  if (!has_several_rows(func, group)) return 1;
  const auto last = block_structure(func, *find_block(func->body, group.blocks.back()));
  const int64_t rows = last->extents[group.rows.back()];
  const int64_t l1 = cache_bytes(*ctx.target, 0);
  std::vector<int64_t> candidates = {1};
  size_t preferred = 0;
  for (const int64_t n : {kUsualRows, 2 * kUsualRows}) {
    if (rows < 2 * n || (whole && n * work.row > kMostOfRows * ctx.lanes(kF32))) break;
    const int64_t bytes = n * work.row * (work.keeps_rows ? 2 : 1) * last->store.buffer->dtype.element_bytes();
    const bool usual = n == kUsualRows || work.row <= kFewVectors * ctx.lanes(kF32);
    if (usual && 4 * bytes <= 3 * l1) preferred = candidates.size();
    candidates.push_back(n);
  }
  if (candidates.size() == 1) return 1;
  return choose(ctx, "rows", candidates, preferred);
}

Result<std::vector<Part>> parts_of(const RuleContext& ctx, const RowGroup& group) {
  const Func& func = ctx.schedule.func();
  std::vector<Part> parts(group.blocks.size());
  for (size_t b = group.blocks.size(); b-- > 0;) {
    const BlockNode* block = find_block(func->body, group.blocks[b]);
    parts[b] = {.name = group.blocks[b], .head = b};
    const StoreNode* store = single_store(*block);
    if (!store) return fail(ErrorCode::E230, parts[b].name + " is not one store");
    if (!group.rows.empty()) {
      const VarNode* var = block_structure(func, *block)->vars[group.rows_of[b].back()].get();
      for (size_t i = 0; i < block->iters.size(); ++i)
        if (uses_var(block->iters[i].binding, var)) parts[b].row_iter = i;
    }
    const std::vector<const BlockNode*> readers = consumers_of(func.root(), store->buffer.get());
    if (readers.size() == 1 && combines_itself(*readers.front())) {
      const auto reader = std::ranges::find(parts, readers.front()->name, &Part::name);
      if (reader != parts.end()) parts[b].head = reader->head;
    }
  }
  return parts;
}

// Rows that are dealt out to threads go in runs, so that the hand-over, some tens of nanoseconds, costs nothing beside
// short rows: the number of runs, perhaps with a shorter last one, or 1.
Result<int64_t> runs_of(RuleContext& ctx, const RowWork& work, int64_t pieces) {
  const int64_t least = int64_t{2} * ctx.threads;
  if (pieces < 2 * least) return 1;
  std::vector<int64_t> candidates = {least};
  for (const int64_t runs : {8 * ctx.threads, 32 * ctx.threads})
    if (2 * runs <= pieces) candidates.push_back(runs);
  const int64_t run = work.has_calls ? 4096 : 16384;  // elements that take a few microseconds
  const auto per_run = [&](int64_t runs) { return (pieces + runs - 1) / runs; };
  const auto whole_runs = [&](int64_t runs) { return (pieces + per_run(runs) - 1) / per_run(runs); };
  // Of the thread that has most to do.
  const auto most = [&](int64_t runs) { return (whole_runs(runs) + ctx.threads - 1) / ctx.threads * per_run(runs); };
  size_t preferred = 0;
  for (size_t c = 1; c < candidates.size(); ++c)
    if (candidates[c] * run <= work.rows * work.row && 50 * most(candidates[c]) <= 51 * most(candidates[preferred]))
      preferred = c;
  FETTLE_TRY(const int64_t runs, choose(ctx, "runs", candidates, preferred));
  return whole_runs(runs);
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
  FETTLE_TRY(const std::vector<Part> blocks, parts_of(ctx, *group));
  const RowWork work = row_work(ctx, *group);
  FETTLE_TRY(const bool shared, worth_threads(ctx.schedule, *ctx.decider, ctx.threads, work.alone_ns));
  FETTLE_TRY(const bool whole, unrolls_rows(ctx, *group, work));
  FETTLE_TRY(const int64_t at_once, rows_at_once(ctx, *group, work, whole));

  Loops rows, order, together;
  LoopRef side_by_side;
  bool has_side_by_side = false;
  for (size_t r = 0; r < group->rows.size(); ++r) {
    const LoopRef loop = loops[group->rows[r]];
    FETTLE_TRY(const int64_t extent, loop_extent(ctx, loop));
    if (r + 1 < group->rows.size() || !group->rows_are_contiguous) {
      const int64_t own = r + 1 == group->rows.size() ? at_once : 1;
      const int64_t pieces = (extent + own - 1) / own;
      FETTLE_TRY(const int64_t runs, shared&& r == 0 ? runs_of(ctx, work, pieces) : Result<int64_t>(1));
      const int64_t per_run = (pieces + runs - 1) / runs;
      LoopRef dealt = loop;
      if (own > 1) {
        const Tail tail = extent % own == 0 ? Tail::kExact : Tail::kPartition;
        FETTLE_TRY(const Loops parts, split(s, {.loop = loop, .factors = {kInfer, own}, .tail = tail}));
        dealt = parts[0];
        together.push_back(parts[1]);
      }
      if (runs > 1) {
        const Tail tail = runs * per_run == pieces ? Tail::kExact : Tail::kGuard;
        FETTLE_TRY(const Loops parts, split(s, {.loop = dealt, .factors = {runs, per_run}, .tail = tail}));
        rows.insert(rows.end(), parts.begin(), parts.end());
      } else {
        rows.push_back(dealt);
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
  order.insert(order.end(), together.begin(), together.end());
  for (size_t i = 0; i < loops.size(); ++i)
    if (std::find(group->rows.begin(), group->rows.end(), i) == group->rows.end()) order.push_back(loops[i]);
  if (has_side_by_side) order.push_back(side_by_side);
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  const bool several = !together.empty();
  std::vector<LoopRef> own_row(blocks.size());  // of several rows, of those that others are steps towards
  if (several) own_row.back() = together.back();
  if (!rows.empty())
    for (size_t b = blocks.size() - 1; b-- > 0;) {
      FETTLE_TRY(const BlockRef part, get_block(s, {.name = blocks[b].name}));
      const bool is_step = several && blocks[b].head != b;
      FETTLE_TRY_VOID(compute_at(
          s, {.block = part, .loop = is_step ? own_row[blocks[b].head] : rows.back(), .preserve_unit_loops = false}));
      if (!several || is_step) continue;
      FETTLE_TRY(const std::vector<OwnLoop> own, own_loops(ctx, blocks[b], part, rows.size(), several));
      const auto row = std::ranges::find_if(own, &OwnLoop::row);
      if (row == own.end()) return fail(ErrorCode::E230, blocks[b].name + " has no loop over rows");
      own_row[b] = row->loop;
    }
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (!several && b + 1 < blocks.size()) {
      FETTLE_TRY(const bool taken_along, sums_in_passing(ctx, blocks[b], blocks[b + 1], rows.size()));
      if (taken_along) {
        ++b;
        continue;
      }
    }
    const size_t depth = rows.size() + (several && blocks[b].head != b ? 1 : 0);
    FETTLE_TRY_VOID(schedule_part(ctx, blocks[b], depth, blocks[b].name == last, whole, several));
  }
  return shared ? parallelize(ctx.schedule, rows, {.threads = ctx.threads}) : Result<>();
}

}  // namespace

constinit const Rule row_fusion_def = {"row_fusion", applies, apply};

}  // namespace fettle
