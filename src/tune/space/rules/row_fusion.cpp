// Programs that work row by row (parts/rows.h): how many rows are worked on at once, in which runs they are dealt out,
// and what of a row is unrolled, kept in registers, or taken along in one pass.

#include <algorithm>

#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/get_block.h"
#include "target/caches.h"
#include "tune/parts/preferences.h"
#include "tune/parts/rows.h"
#include "tune/parts/threads.h"
#include "tune/space/rule.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

using preferences::kMostOfRow, preferences::kUsualRows;

int64_t lanes_of_output(const RuleContext& ctx, const std::string& block) {
  return ctx.lanes(single_store(*find_block(ctx.schedule.func()->body, block))->buffer->dtype);
}

// Accumulators and short rows stay in registers. `whole`: all of a row is unrolled.
// `streams`: each step of a reduction goes over all rows that are worked on at once.
Result<> schedule_part(RuleContext& ctx, const RowPart& part, bool whole, bool streams) {
  FETTLE_TRY(const RowPass pass, row_pass(ctx.schedule, part, lanes_of_output(ctx, part.name)));
  ctx.schedule.set_address_prefix("row_fusion/" + part.name);
  const size_t n_loops = pass.reduce.size() + pass.others.size() + (pass.vector ? 1 : 0);
  const bool few = pass.vectors <= kMostOfRow && !pass.open;
  RowPassOptions options;
  if (streams && part.reduces) options.rows = RowsAt::kInsideSteps;
  const bool one_vector = pass.vector && !pass.vector->open && pass.vector->extent <= pass.width;
  if (pass.vector && !one_vector && !part.reduces && !few) {
    FETTLE_TRY(options.at_once, choose(ctx, "vectors", {1, 2, 4}, 1));
    options.tail = Tail::kPartition;
    if (part.last) options.rows = RowsAt::kInsideBlocks;  // all are written side by side
  }
  options.unroll_turns = whole;
  const bool known_steps = std::ranges::none_of(pass.reduce, &RowLoop::open) && !pass.open;
  options.unroll_steps = n_loops == 2 && known_steps && (whole || pass.steps * pass.vectors <= kMostOfRow);
  options.unroll_others = std::ranges::none_of(pass.others, &RowLoop::open) && (part.reduces || (few && !part.last));
  const bool few_loops = part.reduces ? n_loops - pass.reduce.size() <= 1 : n_loops <= 2;
  options.in_registers = !part.last && !pass.open &&
                         pass.vectors * pass.n_rows() <= (part.reduces ? kMostOfRow : kMostKeptOfRow) && few_loops;
  FETTLE_TRY_VOID(schedule_row_pass(ctx.schedule, pass, options));
  ctx.done.insert(part.name);
  ctx.done.insert(part.name + "_init");
  return {};
}

// Whether the sum over a long row is taken along while the row is worked out: it is read once less. Then both are done.
Result<bool> sums_in_passing(RuleContext& ctx, const RowPart& made, const RowPart& sum) {
  const Func& func = ctx.schedule.func();
  const BlockNode *made_node = find_block(func->body, made.name), *sum_node = find_block(func->body, sum.name);
  const Buffer row = single_store(*made_node)->buffer;
  const auto structure = block_structure(func, *made_node, Extents::kOpen);
  if (!structure || made.reduces || !sum.reduces) return false;
  if (std::ranges::find(sum_node->reads, row, &Region::buffer) == sum_node->reads.end()) return false;
  const int64_t lanes = ctx.lanes(row->dtype);
  int64_t elements = 1;
  for (size_t i = made.depth; i < structure->n_iters(); ++i) elements *= structure->extents[i];
  if (elements <= kMostOfRow * lanes) return false;
  if (Schedule trial = ctx.schedule; !in_one_pass(trial, made, sum, lanes)) return false;
  ctx.schedule.set_address_prefix("row_fusion/" + sum.name);
  FETTLE_TRY(const int64_t passing, choose(ctx, "in_passing", {0, 1}, 1));
  if (passing == 0) return false;
  FETTLE_TRY_VOID(in_one_pass(ctx.schedule, made, sum, lanes));
  for (const std::string& name : {made.name, sum.name, sum.name + "_init"}) ctx.done.insert(name);
  return true;
}

// What is done with all rows.
struct RowWork {
  int64_t rows = 1, row = 1;  // elements of a row
  double alone_ns = 0;        // of one thread, all passes
  bool has_calls = false;     // for each element
  bool keeps_rows = false;    // of what later passes read
  bool streams = false;       // rows of a matrix in memory
  bool open = false;          // elements of a row are no constant
};

RowWork row_work(const RuleContext& ctx, const RowGroup& group) {
  const Func& func = ctx.schedule.func();
  RowWork work;
  const auto last = block_structure(func, *find_block(func->body, group.blocks.back()), Extents::kOpen);
  for (const size_t row : group.rows) work.rows *= last->extents[row];
  for (size_t b = 0; b < group.blocks.size(); ++b) {
    const std::string& name = group.blocks[b];
    const BlockNode& block = *find_block(func->body, name);
    const auto structure = block_structure(func, block, Extents::kOpen);
    const int64_t points = structure->points(), calls = calls_of(block);
    work.streams |= streams_rows(*structure, *ctx.target);
    work.alone_ns += alone_ns(*ctx.target, *structure, calls);
    work.row = std::max(work.row, points / work.rows);
    for (size_t i = 0; i < structure->n_iters(); ++i)
      work.open |= structure->open[i] && std::ranges::find(group.rows_of[b], i) == group.rows_of[b].end();
    work.has_calls |= points > work.rows && calls > 0;
    work.keeps_rows |= !block.init && points == work.rows * work.row && name != group.blocks.back();
  }
  return work;
}

bool has_several_rows(const Func& func, const RowGroup& group) {
  if (group.rows_are_contiguous || group.rows.empty()) return false;
  const auto last = block_structure(func, *find_block(func->body, group.blocks.back()), Extents::kOpen);
  return last->extents[group.rows.back()] >= 2 * kUsualRows;
}

// Whether the passes over a short row are unrolled: a loop of a dozen turns ends often, and each end is guessed wrong.
// Several rows at once wait less for that, and an exponential takes longer, and much code.
Result<bool> unrolls_rows(RuleContext& ctx, const RowGroup& group, const RowWork& work) {
  if (work.open) return false;
  const int64_t vectors = work.row / ctx.lanes(kF32);
  if (vectors <= kMostOfRow || vectors > preferences::kUnrolledRow) return false;
  FETTLE_TRY(const int64_t whole, choose(ctx, "unroll_rows", {0, 1},
                                         work.has_calls || has_several_rows(ctx.schedule.func(), group) ? 0 : 1));
  return whole != 0;
}

// Rows that are worked on at once. One row waits for its sums, from one pass to the next and at the end of each for its
// lanes to be added up. All of them stay in the first-level cache. `whole`: each is unrolled.
Result<int64_t> rows_at_once(RuleContext& ctx, const RowGroup& group, const RowWork& work, bool whole) {
  const Func& func = ctx.schedule.func();
  if (!has_several_rows(func, group)) return 1;
  const auto last = block_structure(func, *find_block(func->body, group.blocks.back()), Extents::kOpen);
  const int64_t rows = last->extents[group.rows.back()];
  const int64_t l1 = cache_bytes(*ctx.target, 0);
  std::vector<int64_t> candidates = {1};
  size_t preferred = 0;
  for (const int64_t n : {kUsualRows, 2 * kUsualRows}) {
    if (rows < 2 * n || (whole && n * work.row > preferences::kMostOfRows * ctx.lanes(kF32))) break;
    const int64_t bytes = n * work.row * (work.keeps_rows ? 2 : 1) * last->store.buffer->dtype.element_bytes();
    const bool usual = n == kUsualRows || work.row <= preferences::kFewVectors * ctx.lanes(kF32);
    if (usual && 4 * bytes <= 3 * l1) preferred = candidates.size();
    candidates.push_back(n);
  }
  if (work.streams && rows >= 2 * preferences::kStreamedRows) {
    preferred = candidates.size();
    candidates.push_back(preferences::kStreamedRows);
  }
  if (candidates.size() == 1) return 1;
  return choose(ctx, "rows", candidates, preferred);
}

// Rows that are dealt out to threads go in runs, so that the hand-over, some tens of nanoseconds, costs nothing beside
// short rows: the number of runs, perhaps with a shorter last one, or 1.
Result<int64_t> runs_of(RuleContext& ctx, const RowWork& work, int64_t pieces) {
  const int64_t least = int64_t{2} * ctx.threads;
  if (pieces < 2 * least) return 1;
  std::vector<int64_t> candidates = {least};
  for (const int64_t runs : {8 * ctx.threads, 32 * ctx.threads})
    if (2 * runs <= pieces) candidates.push_back(runs);
  const int64_t run = work.has_calls ? preferences::kRunWithCalls : preferences::kRunWithoutCalls;
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
    const auto structure = block_structure(func, *b, Extents::kOpen);
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
  return row_group(ctx.schedule.func(), rows_around(ctx, block), Extents::kOpen).has_value();
}

Result<> apply(RuleContext& ctx, BlockRef any) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const BlockNode* around, block_node(s, any));
  const auto group = row_group(s.func(), rows_around(ctx, *around), Extents::kOpen);
  if (!group) return fail(ErrorCode::E230, "the blocks have no rows in common");
  const std::string& last = group->blocks.back();
  const int64_t lanes = lanes_of_output(ctx, last);
  FETTLE_TRY(std::vector<RowPart> parts, row_parts(s.func(), *group, lanes));
  const auto structure = block_structure(s.func(), *find_block(s.func()->body, last), Extents::kOpen);
  const std::vector<int64_t>& extents = structure->extents;
  const RowWork work = row_work(ctx, *group);
  s.set_address_prefix("row_fusion/" + last);
  FETTLE_TRY(const bool shared, worth_threads(s, *ctx.decider, ctx.threads, work.alone_ns));
  FETTLE_TRY(const bool whole, unrolls_rows(ctx, *group, work));
  FuseRowsOptions options;
  FETTLE_TRY(options.at_once, rows_at_once(ctx, *group, work, whole));
  options.sums_at_once = work.streams && options.at_once > 1;
  const size_t n_rows = group->rows.size();
  if (shared && n_rows > (group->rows_are_contiguous ? 1 : 0)) {
    const int64_t own = n_rows == 1 ? options.at_once : 1;
    FETTLE_TRY(options.runs, runs_of(ctx, work, (extents[group->rows.front()] + own - 1) / own));
  }
  if (group->rows_are_contiguous && (structure->open[group->rows.back()] || extents[group->rows.back()] > lanes)) {
    FETTLE_TRY(const int64_t vectors, choose(ctx, "vectors", {1, 2, 4}, 1));
    options.side_by_side = vectors * lanes;
  }
  FETTLE_TRY(const Loops rows, fuse_rows(s, *group, parts, options));
  for (size_t b = 0; b < parts.size(); ++b) {
    if (options.at_once == 1 && !parts[b].last) {
      FETTLE_TRY(const bool taken_along, sums_in_passing(ctx, parts[b], parts[b + 1]));
      if (taken_along) {
        ++b;
        continue;
      }
    }
    FETTLE_TRY_VOID(schedule_part(ctx, parts[b], whole, options.sums_at_once));
  }
  return shared ? parallelize(s, rows, {.threads = ctx.threads}) : Result<>();
}

}  // namespace

extern constinit const Rule row_fusion_def = {"row_fusion", applies, apply};

}  // namespace fettle
