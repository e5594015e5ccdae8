#include "tune/parts/gpu_nest.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/gpu_sums.h"
#include "tune/parts/gpu_width.h"
#include "tune/parts/structure.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

struct Making {
  Schedule& s;
  const Target& target;
  Decider& decider;
};

// The loops around a block: those that it shares with other blocks, and its own.
struct LoopsByOwner {
  Loops shared, own;
};

Result<LoopsByOwner> loops_by_owner(Schedule& s, BlockRef block) {
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  LoopsByOwner found;
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    const bool shares = blocks_under(stmt.as<ForNode>()->body).size() > 1;
    (shares ? found.shared : found.own).push_back(loop);
  }
  return found;
}

Result<bool> is_bound(const Schedule& s, const Loops& loops) {
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    if (stmt.as<ForNode>()->loop_kind == ForKind::kThreadBinding) return true;
  }
  return false;
}

// The loop along which neighbours in memory lie, of what is written or else of what is read; or the last.
size_t contiguous_loop(const BlockStructure& block, const std::vector<bool>& dealt_out) {
  const auto along = [&](const AccessPattern& access) {
    for (size_t i = block.n_iters(); i-- > 0;)
      if (dealt_out[i] && access.strides[i] == 1 && block.extents[i] > 1) return i;
    return block.n_iters();
  };
  if (const size_t i = along(block.store); i < block.n_iters()) return i;
  for (const AccessPattern& load : block.loads)
    if (const size_t i = along(load); i < block.n_iters()) return i;
  return block.n_iters();
}

// Independent loops go outside, the one along memory last of them. Where that is refused, those that stand outermost.
Result<Loops> independent_outside(Making& m, BlockRef block, const Loops& own) {
  Schedule& s = m.s;
  FETTLE_TRY(const std::vector<bool> are, independent_loops(s, own));
  const Loops first = first_run(own, are);
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  FETTLE_TRY(const Loops all, get_loops(s, {.block = block}));
  const auto structure = block_structure(s.func(), *node, Extents::kOpen);
  size_t last = own.size();
  if (structure) {
    std::vector<bool> dealt_out(all.size() - own.size(), false);
    dealt_out.insert(dealt_out.end(), are.begin(), are.end());
    last = contiguous_loop(*structure, dealt_out) - (all.size() - own.size());
  }
  Loops outside, inside;
  for (size_t i = 0; i < own.size(); ++i)
    if (i != last) (are[i] ? outside : inside).push_back(own[i]);
  if (last < own.size()) outside.push_back(own[last]);
  Loops order = outside;
  order.insert(order.end(), inside.begin(), inside.end());
  if (order == own || outside.empty()) return outside;
  return reorder(s, {.loops = order}) ? outside : first;
}

int64_t iterations_of(const Schedule& s, const Loops& loops) {
  double n = 1;
  for (const LoopRef& loop : loops)
    if (const auto extent = extent_of_loop(s, loop)) n *= static_cast<double>(extent->value);
  return static_cast<int64_t>(std::min(n, 1e15));
}

Result<Grid> deal_out_nest(Making& m, const Loops& loops, bool flat, const Width& width) {
  const int64_t fitting = threads_for(m.target, iterations_of(m.s, loops) / width.lanes, kThreadsOfBlock);
  FETTLE_TRY(const int64_t threads, m.decider.pick(m.s, {"threads", first_of(fitting, {64, 128, 256, 512})}));
  FETTLE_TRY(const Grid grid, deal_out(m.s, m.target, loops,
                                       {.threads = threads, .lanes = width.lanes, .turns = width.turns, .flat = flat}));
  if (grid.turn) FETTLE_TRY_VOID(unroll(m.s, {.loop = *grid.turn}));
  if (grid.lane) FETTLE_TRY_VOID(vectorize(m.s, {.loop = *grid.lane}));
  return grid;
}

Result<Finished> own_nest(Making& m, BlockRef block, const Loops& own, bool takes_epilogue) {
  Schedule& s = m.s;
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  Finished finished = {node->name};
  const bool reduces = static_cast<bool>(node->init);
  if (takes_epilogue && !reduces) return fail(ErrorCode::E230, node->name + " reduces nothing");
  FETTLE_TRY(const Loops outside, independent_outside(m, block, own));
  if (outside.empty()) return finished;
  if (reduces) return gpu_sums(s, m.target, m.decider, block, outside, takes_epilogue);
  Width width;
  FETTLE_TRY(node, block_node(s, block));
  if (const auto now = block_structure(s.func(), *node, Extents::kOpen)) {
    FETTLE_TRY(const Var last, s.loop_var(outside.back()));
    const auto at = std::ranges::find(now->vars, last);
    if (at == now->vars.end()) return fail(ErrorCode::E230, node->name + " has no such loop");
    const Width wide = width_of(m.target, *now, static_cast<size_t>(at - now->vars.begin()));
    FETTLE_TRY(const int64_t by_lanes, m.decider.pick(s, {"lanes", first_of(wide.lanes, {1})}));
    FETTLE_TRY(const int64_t turns, m.decider.pick(s, {"turns", first_of(wide.turns, {1, 2, 4})}));
    width = {by_lanes, turns};
  }
  FETTLE_TRY_VOID(deal_out_nest(m, outside, true, width).map([](const Grid&) {}));
  return finished;
}

Result<Finished> shared_nest(Making& m, const Loops& shared) {
  Schedule& s = m.s;
  FETTLE_TRY(const Stmt outermost, s.loop(shared.front()));
  FETTLE_TRY(const std::vector<bool> are, independent_loops(s, shared));
  const Loops dealt_out = first_run(shared, are);
  if (dealt_out.empty()) return fail(ErrorCode::E230, "no loop that the blocks share has independent iterations");
  FETTLE_TRY(const Stmt around, s.loop(dealt_out.front()));
  Finished finished;
  walk(around, [&](const Stmt& inner) {
    if (const auto* block = inner.as<BlockNode>()) finished.push_back(block->name);
    return true;
  });
  FETTLE_TRY_VOID(deal_out_nest(m, dealt_out, false, {}).map([](const Grid&) {}));
  return finished;
}

}  // namespace

Result<Finished> gpu_nest(Schedule& s, const Target& target, Decider& decider, BlockRef block) {
  Making m{.s = s, .target = target, .decider = decider};
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const Finished alone = {node->name};
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  FETTLE_TRY(const bool bound, is_bound(s, loops));
  if (loops.empty() || bound) return alone;
  FETTLE_TRY(const LoopsByOwner by_owner, loops_by_owner(s, block));
  const auto tried = [&](const auto& make) -> std::optional<Finished> {
    Schedule before = s;
    auto made = make();
    if (made && check_on_device(s.func(), target)) return std::move(*made);
    s = std::move(before);
    return std::nullopt;
  };
  if (!by_owner.shared.empty())
    if (auto made = tried([&] { return shared_nest(m, by_owner.shared); })) return std::move(*made);
  for (const bool takes_epilogue : {true, false})
    if (!by_owner.own.empty())
      if (auto made = tried([&] { return own_nest(m, block, by_owner.own, takes_epilogue); })) return std::move(*made);
  return alone;
}

}  // namespace fettle
