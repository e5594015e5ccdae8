// Rules of targets with threads: each gives a block, or several, to one of the parts (tune/parts/gpu_*.h).

#include <algorithm>

#include "schedule/dataflow/dataflow.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/gpu_nest.h"
#include "tune/parts/gpu_product.h"
#include "tune/parts/gpu_reductions.h"
#include "tune/parts/gpu_rows.h"
#include "tune/parts/gpu_tensor_product.h"
#include "tune/parts/gpu_transpose.h"
#include "tune/parts/gpu_warp_group_product.h"
#include "tune/parts/gpu_warp_tiles.h"
#include "tune/parts/inline.h"
#include "tune/space/rule.h"

namespace fettle {
namespace {

bool fits_blocks(const RuleContext& ctx, const RowGroup& group) {
  const Func& func = ctx.schedule.func();
  const auto last = block_structure(func, *find_block(func->body, group.blocks.back()), Extents::kOpen);
  int64_t rows = 1, elements = 1;
  for (const size_t row : group.rows) rows *= last->extents[row];
  for (const std::string& name : group.blocks)
    elements =
        std::max(elements, block_structure(func, *find_block(func->body, name), Extents::kOpen)->points() / rows);
  const int64_t units = ctx.target->gpu ? ctx.target->gpu->multiprocessors : 1;
  return elements <= kMostElementsOfBlock || 2 * rows >= units;
}

// As many blocks around this one as work row by row, in whatever parts their rows are reduced.
std::optional<RowGroup> rows_around(const RuleContext& ctx, const BlockNode& block) {
  const Func& func = ctx.schedule.func();
  std::vector<const BlockNode*> run;
  bool met = false;
  for (const BlockNode* b : blocks_of(func.root())) {
    if (ctx.is_done(*b)) {
      if (met) break;
      run.clear();
      continue;
    }
    met |= b == &block;
    run.push_back(b);
  }
  const auto own = std::ranges::find(run, &block);
  if (own == run.end()) return {};
  const auto at = static_cast<size_t>(own - run.begin());
  for (size_t n = run.size(); n >= 2; --n)
    for (size_t begin = at + 1 > n ? at + 1 - n : 0; begin <= at && begin + n <= run.size(); ++begin) {
      const std::vector<const BlockNode*> blocks(run.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 run.begin() + static_cast<std::ptrdiff_t>(begin + n));
      auto group = row_group(func, blocks, Extents::kOpen);
      if (group && !group->rows_are_contiguous && splits_rows(func, *group) && fits_blocks(ctx, *group)) return group;
    }
  return {};
}

// Rows that registers do not hold are read again by each pass: what lies between is worked out again.
void inline_passes(Schedule& s, const RowGroup& group) {
  for (const std::string& name : group.blocks)
    if (const BlockNode* block = find_block(s.func()->body, name); block && !block->init) try_inline(s, name);
}

Result<> rows_to_blocks(RuleContext& ctx, BlockRef block) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx.schedule, block));
  const auto group = rows_around(ctx, *node);
  if (!group) return fail(ErrorCode::E230, "the blocks have no rows in common");
  for (const bool keeps : {true, false}) {
    Schedule trial = ctx.schedule;
    RowGroup now = *group;
    if (!keeps) {
      inline_passes(trial, now);
      std::erase_if(now.blocks, [&](const std::string& name) { return !find_block(trial.func()->body, name); });
      std::vector<const BlockNode*> left;
      for (const std::string& name : now.blocks) left.push_back(find_block(trial.func()->body, name));
      const auto again = row_group(trial.func(), left, Extents::kOpen);
      if (!again || !splits_rows(trial.func(), *again)) break;
      now = *again;
    }
    const auto finished = gpu_rows(trial, *ctx.target, now, keeps);
    if (!finished || !check_on_device(trial.func(), *ctx.target)) continue;
    ctx.schedule = std::move(trial);
    ctx.done.insert(finished->begin(), finished->end());
    return {};
  }
  return fail(ErrorCode::E230, "the rows fit no block of threads");
}

}  // namespace

// Reductions along memory that split_rows_among_threads has cut, with what works on the same rows.
extern constinit const Rule gpu_rows_def = {
    "gpu_rows", [](const RuleContext& ctx, const BlockNode& block) { return rows_around(ctx, block).has_value(); },
    rows_to_blocks};

// A product of matrices that warp groups multiply faster than single warps would, with what is done to its elements.
extern constinit const Rule gpu_warp_group_product_def = {
    "gpu_warp_group_product",
    [](const RuleContext& ctx, const BlockNode& block) {
      const auto shape = warp_group_product(ctx.schedule.func(), block, *ctx.target);
      if (!shape) return false;
      const Target& target = *ctx.target;
      const WarpGroupTiling& groups = warp_group_tilings()[fastest_tilings(*shape, target).front()];
      const WarpTiling warps = warp_tiling(fastest_warp_tilings(*shape, target).front());
      return predicted_seconds(groups, *shape, target) <= predicted_seconds(warps, *shape, target);
    },
    [](RuleContext& ctx, BlockRef block) {
      return by_part(ctx, block, "gpu_warp_group_product",
                     [&] { return gpu_warp_group_product(ctx.schedule, *ctx.target, *ctx.decider, block); });
    }};

// A product of matrices of 16 bits on tensor cores, with what is done to its elements.
extern constinit const Rule gpu_tensor_product_def = {
    "gpu_tensor_product",
    [](const RuleContext& ctx, const BlockNode& block) {
      const auto structure = block.init ? block_structure(ctx.schedule.func(), block) : std::nullopt;
      if (!structure || !suits_tensor_cores(*ctx.target, *structure)) return false;
      const auto loops = product_loops(*structure);
      return fills_tiles(structure->extents[loops->row], structure->extents[loops->column],
                         structure->extents[loops->term]);
    },
    [](RuleContext& ctx, BlockRef block) {
      return by_part(ctx, block, "gpu_tensor_product", [&]() -> Result<Finished> {
        FETTLE_TRY(Finished finished, gpu_tensor_product(ctx.schedule, *ctx.target, *ctx.decider, block));
        FETTLE_TRY_VOID(check_on_device(ctx.schedule.func(), *ctx.target));
        return finished;
      });
    }};

// A product of matrices, with what is done to its elements.
extern constinit const Rule gpu_product_def = {
    "gpu_product",
    [](const RuleContext& ctx, const BlockNode& block) {
      const auto structure = block.init ? block_structure(ctx.schedule.func(), block) : std::nullopt;
      const auto loops = structure ? product_loops(*structure) : std::nullopt;
      return loops && fills_tiles(structure->extents[loops->row], structure->extents[loops->column],
                                  structure->extents[loops->term]);
    },
    [](RuleContext& ctx, BlockRef block) {
      return by_part(ctx, block, "gpu_product",
                     [&] { return gpu_product(ctx.schedule, *ctx.target, *ctx.decider, block); });
    }};

// What reads along another dimension than it writes.
extern constinit const Rule gpu_transpose_def = {
    "gpu_transpose",
    [](const RuleContext& ctx, const BlockNode& block) {
      const auto structure = block_structure(ctx.schedule.func(), block, Extents::kOpen);
      return structure && transposing(*structure).has_value();
    },
    [](RuleContext& ctx, BlockRef block) {
      return by_part(ctx, block, "gpu_transpose",
                     [&] { return gpu_transpose(ctx.schedule, *ctx.target, *ctx.decider, block); });
    }};

// Everything that no other rule takes.
extern constinit const Rule gpu_nest_def = {
    "gpu_nest", [](const RuleContext&, const BlockNode&) { return true; },
    [](RuleContext& ctx, BlockRef block) {
      return by_part(ctx, block, "gpu_nest", [&] { return gpu_nest(ctx.schedule, *ctx.target, *ctx.decider, block); });
    }};

}  // namespace fettle
