#include "tune/space/affine_orders.h"

#include <algorithm>
#include <set>

#include "analysis/affine/nest.h"
#include "ir/query.h"
#include "ir/text.h"
#include "polyhedral/column_blocks.h"
#include "polyhedral/index_set_split.h"
#include "polyhedral/register_tiles.h"
#include "polyhedral/right_looking.h"
#include "polyhedral/row_lanes.h"
#include "polyhedral/scheduler.h"
#include "polyhedral/strips.h"
#include "polyhedral/unroll_and_jam.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/parts/preferences.h"

namespace fettle {
namespace {

// So that a default takes a second or two at most.
constexpr int64_t kIslDefaultOperations = 1'000'000;
constexpr size_t kMostReordered = 4;

// Deep enough that a tile of sums is seldom loaded and stored; what a block makes ready is no product, so not deeper.
// All sizes of register tiles divide it, so that none of them meets the edge of a block.
constexpr int64_t kStepBlock = 96;

bool has_triangles(const Stmt& top) {
  bool found = false;
  each_node<ForNode>(top, [&](const ForNode& loop) { found = found || !as_int(loop.extent); });
  return found;
}

bool has_init(const BlockNode* block) { return block->init != nullptr; }

bool runs_in_order(const BlockNode* block) {
  return std::ranges::any_of(block->iters, [](const IterVar& iter) { return iter.kind == IterKind::kScan; });
}

// Whether blocks below share loops, or run over no rectangle. What stands alone over a rectangle has rules of its own,
// and so have reductions with an init.
bool is_ordered_nest(const Stmt& top) {
  const auto blocks = blocks_under(top);
  if (std::ranges::any_of(blocks, has_init)) return false;
  const bool share_loops = blocks.size() > 1 && top.kind() == StmtKind::kFor;
  return share_loops || has_triangles(top);
}

// Whether one block runs in order below, along all of its loops: rows of it may be a recurrence.
bool may_be_recurrence(const Stmt& top) {
  const auto blocks = blocks_under(top);
  return blocks.size() == 1 && !has_init(blocks.front()) && blocks.front()->iters.size() > 1 &&
         std::ranges::all_of(blocks.front()->iters, [](const IterVar& iter) { return iter.kind == IterKind::kScan; });
}

// Blocks that are ordered at once.
struct OrderedNest {
  std::vector<std::string> blocks;
  bool is_inner = false;       // in loops around other blocks
  bool is_recurrence = false;  // of one block
  bool has_step_blocks = false;
  bool is_loop = false;  // one loop around all of its blocks, which other nests may have, too
};

// Nests of too many blocks stay as they are, around others in them.
void add_inner_nests(const ForNode& loop, std::vector<OrderedNest>& nests) {
  const auto* sequence = loop.body.as<SeqNode>();
  const std::vector<Stmt> single = {loop.body};
  for (const Stmt& inner : sequence ? sequence->stmts : single) {
    const auto blocks = blocks_under(inner);
    const auto* inner_loop = inner.as<ForNode>();
    if (!inner_loop || blocks.size() < 2 || !is_ordered_nest(inner)) continue;
    if (blocks.size() > kMostReordered) {
      add_inner_nests(*inner_loop, nests);
      continue;
    }
    OrderedNest& nest = nests.emplace_back(OrderedNest{.is_inner = true});
    for (const BlockNode* block : blocks) nest.blocks.push_back(block->name);
  }
}

// Names of blocks that are to be ordered: those in statements of the body, at once, and those of nests in such
// statements as have too many. What may be a recurrence stands alone, too.
std::vector<OrderedNest> ordered_blocks(const Func& func) {
  const Stmt& body = func.root().body;
  const auto* sequence = body.as<SeqNode>();
  const std::vector<Stmt> single = {body};
  std::vector<OrderedNest> nests(1);
  for (const Stmt& top : sequence ? sequence->stmts : single) {
    const auto blocks = blocks_under(top);
    if (may_be_recurrence(top)) nests.push_back({.blocks = {blocks.front()->name}, .is_recurrence = true});
    if (!is_ordered_nest(top)) continue;
    const auto* loop = top.as<ForNode>();
    if (loop && blocks.size() > 1) {
      OrderedNest& nest = nests.emplace_back(OrderedNest{.is_loop = true});
      for (const BlockNode* block : blocks) nest.blocks.push_back(block->name);
    }
    if (loop && blocks.size() > kMostReordered) {
      add_inner_nests(*loop, nests);
      continue;
    }
    for (const BlockNode* block : blocks) nests.front().blocks.push_back(block->name);
  }
  std::erase_if(nests, [](const OrderedNest& nest) { return nest.blocks.empty(); });
  return nests;
}

// Whether tiles of registers may be what makes an order of the blocks another one.
bool may_have_register_tiles(const Func& func, const OrderedNest& nest) {
  return std::ranges::any_of(blocks_of(func.root()), [&](const BlockNode* block) {
    return std::ranges::find(nest.blocks, block->name) != nest.blocks.end() && goes_on(*block);
  });
}

bool is_deep(const Func& func) {
  return std::ranges::any_of(blocks_of(func.root()), [](const BlockNode* block) { return block->iters.size() > 3; });
}

}  // namespace

void for_each_affine_order(const RuleContext& ctx, const std::function<void(RuleContext, double)>& consider) {
  std::vector<OrderedNest> nests = ordered_blocks(ctx.schedule.func());
  // With open sizes isl takes long for what has parameters in it.
  if (nests.empty() || !ctx.schedule.func()->int_params.empty()) return;
  int element_bytes = 1;
  for (const BlockNode* block : blocks_of(ctx.schedule.func().root()))
    for (const Region& write : block->writes)
      element_bytes = std::max(element_bytes, write.buffer->dtype.element_bytes());
  PolyhedralOptions options;
  options.lanes = ctx.target->vector_lanes(element_bytes);
  options.registers = ctx.target->vector_registers;
  options.parallel = ctx.threads > 1;
  options.full_tiles = false;
  options.found = make_found_orders();
  options.operations = kIslDefaultOperations;
  options.most_blocks = kMostReordered;
  struct Kind {
    FusionStrategy fusion;
    std::vector<IntRef> tiles;
    bool straight_rows = false;
    bool register_tiles = false;
    bool jams_rows = false;
    bool is_strips = false;  // of a loop that blocks share
    bool splits_sets = false;
    bool looks_right = false;
    int64_t step_blocks = 0;
    bool rows_are_lanes = false;
    bool column_blocks = false;
  };
  static const std::vector<Kind> kKinds = {
      {FusionStrategy::kMin, {}},
      {.fusion = FusionStrategy::kMin, .step_blocks = kStepBlock},
      {FusionStrategy::kMin, {64, 64, 64}},
      {FusionStrategy::kMax, {32, 32, 256}},
      {FusionStrategy::kMax, {16, 16}, true},
      {FusionStrategy::kMin, {}, false, true},
      {.fusion = FusionStrategy::kMin, .jams_rows = true},
      {.fusion = FusionStrategy::kMin, .is_strips = true},
      {.fusion = FusionStrategy::kMin, .splits_sets = true},
      {.fusion = FusionStrategy::kMin, .looks_right = true},
      {.fusion = FusionStrategy::kMin, .rows_are_lanes = true},
      {.fusion = FusionStrategy::kMin, .column_blocks = true},
  };
  const SharedNests shared;
  std::set<std::string> seen;
  for (const Kind& kind : kKinds) {
    // Tiles of four loops take isl seconds to scan.
    if (kind.tiles.size() > 2 && is_deep(ctx.schedule.func())) continue;
    options.fusion = kind.fusion;
    options.tiles = kind.tiles;
    options.straight_rows = kind.straight_rows;
    // Scanning fronts of tiles of three rows takes isl seconds, and they are no faster.
    const bool goes_in_fronts = kind.straight_rows && !is_deep(ctx.schedule.func());
    options.tile_order = goes_in_fronts ? TileOrder::kDiamonds : TileOrder::kInTurn;
    options.register_tiles = kind.register_tiles;
    options.step_blocks = kind.step_blocks;
    RuleContext trial = ctx;
    std::vector<std::string> names;
    bool strips_wait = false;  // for earlier ones
    for (OrderedNest& nest : nests) {
      // Scanning tiles takes isl long where what is around them is not known.
      if (nest.is_inner && !kind.tiles.empty()) continue;
      // So does scanning tiles of several statements; blocks of their sums' steps do as much for caches.
      if (nest.has_step_blocks && kind.tiles.size() > 2) continue;
      if (nest.is_loop != kind.column_blocks) continue;
      if (!kind.splits_sets && !kind.rows_are_lanes && nest.is_recurrence != kind.jams_rows) continue;
      if ((kind.register_tiles || kind.step_blocks > 0) && !may_have_register_tiles(ctx.schedule.func(), nest))
        continue;
      options.blocks = nest.blocks;
      options.jammed_rows = kind.jams_rows ? rows_to_jam(*find_block(ctx.schedule.func()->body, nest.blocks.front()),
                                                         ctx.target->fma_latency_cycles)
                                           : 1;
      std::vector<std::string> ordered = nest.blocks;
      const Result<> made =
          kind.rows_are_lanes  ? make_rows_lanes(trial.schedule, nest.blocks, options.lanes, options.parallel, ordered)
          : kind.is_strips     ? strip_shared_loop(trial.schedule, nest.blocks, options.lanes)
          : kind.looks_right   ? look_right(trial.schedule, nest.blocks, options.lanes)
          : kind.column_blocks ? block_columns(trial.schedule, nest.blocks, options.lanes, options.parallel)
          : kind.splits_sets   ? split_index_sets(trial.schedule, nest.blocks, options.lanes, options.parallel)
                               : reschedule_program(trial.schedule, options);
      if (!made) continue;
      nest.has_step_blocks = nest.has_step_blocks || kind.step_blocks > 0;
      names.insert(names.end(), ordered.begin(), ordered.end());
    }
    if (names.empty()) continue;
    for (const BlockNode* block : blocks_of(ctx.schedule.func().root()))
      strips_wait = strips_wait || (std::ranges::find(names, block->name) != names.end() && runs_in_order(block));
    if (!seen.insert(to_text(trial.schedule.func())).second) continue;
    // Copies that pack what blocks read are the other rules' to schedule.
    const auto before = blocks_of(ctx.schedule.func().root());
    for (const BlockNode* block : blocks_of(trial.schedule.func().root())) {
      const auto is_it = [&](const BlockNode* b) { return b->name == block->name; };
      const auto writes_it = [&](const BlockNode* b) { return write_region(*b, block->writes.front().buffer.get()); };
      if (std::ranges::find(names, block->name) != names.end() ||
          (std::ranges::none_of(before, is_it) && std::ranges::any_of(before, writes_it)))
        trial.done.insert(block->name);
    }
    const bool overlaps = kind.jams_rows || kind.rows_are_lanes || (kind.is_strips && strips_wait);
    consider(std::move(trial), kind.straight_rows ? preferences::kReusedRows
                               : overlaps         ? preferences::kOverlappedRows
                                                  : 1);
  }
}

}  // namespace fettle
