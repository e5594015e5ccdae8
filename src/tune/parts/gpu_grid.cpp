#include "tune/parts/gpu_grid.h"

#include <algorithm>
#include <bit>

#include "analysis/parallel_check.h"
#include "analysis/verify.h"
#include "arith/analyzer.h"
#include "base/ceil_div.h"
#include "ir/query.h"
#include "lower/device/device.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/loops.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

int64_t saturating_product(int64_t a, int64_t b) { return a > INT64_MAX / std::max<int64_t>(b, 1) ? INT64_MAX : a * b; }

// Loops that may become one: each but the first is constant, since an index is divided by their extents. All are where
// elements are to be told apart by loops.
struct Group {
  Loops loops;
  int64_t typical = 1;
  int64_t most = 1;  // iterations that it may have
  bool constant = true;
};

Result<std::vector<Group>> groups_of(const Schedule& s, const Loops& loops, bool flat) {
  Analyzer analyzer;
  analyzer.bind_params(s.func());
  std::vector<Group> groups;
  bool ends = true;  // what comes next begins a group
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Extent extent, extent_of_loop(s, loop));
    if (ends || !extent.constant) groups.emplace_back();
    ends = !flat && !extent.constant;
    Group& group = groups.back();
    group.loops.push_back(loop);
    group.constant &= extent.constant;
    group.typical = saturating_product(group.typical, extent.value);
    const int64_t most = extent.constant ? extent.value : std::max<int64_t>(1, analyzer.int_bounds(extent.expr).max);
    group.most = saturating_product(group.most, most);
  }
  return groups;
}

// One loop for each group.
Result<Loops> fuse_groups(Schedule& s, const std::vector<Group>& groups) {
  Loops fused;
  for (const Group& group : groups) {
    FETTLE_TRY(const LoopRef one, fuse(s, {.loops = group.loops}));
    fused.push_back(one);
  }
  return fused;
}

int64_t round_up(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

}  // namespace

Result<Loops> bind_blocks(Schedule& s, const Target& target, const Loops& loops, bool flat) {
  FETTLE_TRY(const std::vector<Group> groups, groups_of(s, loops, flat));
  FETTLE_TRY(const Loops fused, fuse_groups(s, groups));
  const int64_t short_axis = target.find_thread_axis("blockIdx.y")->max_extent;
  const auto is_long = [&](size_t g) { return groups[g].most > short_axis; };
  std::vector<size_t> order;
  for (size_t g = groups.size(); g-- > 0;) order.push_back(g);
  if (!is_long(order.front()))
    if (const auto longest = std::ranges::find_if(order, is_long); longest != order.end())
      std::rotate(order.begin(), longest, longest + 1);
  constexpr const char* kAxes[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z"};
  Loops around, bound;
  for (size_t d = 0; d < order.size(); ++d) {
    LoopRef loop = fused[order[d]];
    if (d >= std::size(kAxes)) {
      around.insert(around.begin(), loop);
      continue;
    }
    const int64_t limit = target.find_thread_axis(kAxes[d])->max_extent;
    if (groups[order[d]].constant && groups[order[d]].most > limit) {
      FETTLE_TRY(const Loops parts, split(s, {.loop = loop, .factors = {kInfer, limit}, .tail = Tail::kGuard}));
      around.insert(around.begin(), parts[0]);
      loop = parts[1];
    }
    FETTLE_TRY_VOID(bind(s, {.loop = loop, .thread_axis = kAxes[d]}));
    bound.insert(bound.begin(), loop);
  }
  around.insert(around.end(), bound.begin(), bound.end());
  if (around.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = around}));
  return around;
}

Result<Grid> deal_out(Schedule& s, const Target& target, const Loops& given, const GridOptions& options) {
  if (given.empty()) return fail(ErrorCode::E230, "there is no loop to deal out");
  Loops loops = given;
  if (options.flat) {
    FETTLE_TRY(const std::vector<Group> groups, groups_of(s, loops, true));
    FETTLE_TRY(loops, fuse_groups(s, groups));
  }
  Grid grid;
  FETTLE_TRY(const Extent last, extent_of_loop(s, loops.back()));
  const int64_t units = ceil_div(last.value, options.lanes);  // that threads share
  const int64_t along = std::min(options.threads, round_up(units));
  grid.turns = options.turns;
  while (grid.turns > 1 && grid.turns * along > units) grid.turns /= 2;
  int64_t across = 1;
  if (loops.size() > 1) {
    FETTLE_TRY(const Extent before, extent_of_loop(s, loops[loops.size() - 2]));
    across = std::min(options.threads / along, round_up(before.value));
  }
  grid.threads = along * across;

  Loops below;
  if (options.lanes > 1) {
    FETTLE_TRY(const Loops parts,
               split(s, {.loop = loops.back(), .factors = {kInfer, options.lanes}, .tail = Tail::kExact}));
    loops.back() = parts[0];
    grid.lane = parts[1];
    below.push_back(parts[1]);
  }
  std::vector<IntRef> factors = {kInfer, along};
  if (grid.turns > 1) factors.insert(factors.begin() + 1, grid.turns);
  FETTLE_TRY(const Loops parts, split(s, {.loop = loops.back(), .factors = factors, .tail = Tail::kGuard}));
  loops.back() = parts[0];
  Loops threads = {parts.back()};
  if (grid.turns > 1) {
    grid.turn = parts[1];
    below.insert(below.begin(), parts[1]);
  }
  if (across > 1) {
    LoopRef& before = loops[loops.size() - 2];
    FETTLE_TRY(const Loops rows, split(s, {.loop = before, .factors = {kInfer, across}, .tail = Tail::kGuard}));
    before = rows[0];
    threads.insert(threads.begin(), rows[1]);
  }
  Loops order = loops;
  for (const Loops* part : {&threads, &below}) order.insert(order.end(), part->begin(), part->end());
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY_VOID(bind_blocks(s, target, loops, options.flat).map([](const Loops&) {}));
  FETTLE_TRY_VOID(bind(s, {.loop = threads.back(), .thread_axis = "threadIdx.x"}));
  if (threads.size() > 1) FETTLE_TRY_VOID(bind(s, {.loop = threads.front(), .thread_axis = "threadIdx.y"}));
  grid.thread = threads.back();
  return grid;
}

int64_t threads_for(const Target& target, int64_t iterations, int64_t most) {
  const int64_t warp = target.gpu ? target.gpu->warp_threads : 32;
  const int64_t units = target.gpu ? target.gpu->multiprocessors : 1;
  int64_t threads = most;
  while (threads > warp && threads * 2 * units > iterations) threads /= 2;
  return threads;
}

Result<std::vector<LoopRef>> loops_below(Schedule& s, BlockRef block, LoopRef loop) {
  FETTLE_TRY(const std::vector<LoopRef> all, get_loops(s, {.block = block}));
  FETTLE_TRY(const Var around, s.loop_var(loop));
  for (size_t i = 0; i < all.size(); ++i) {
    FETTLE_TRY(const Var var, s.loop_var(all[i]));
    if (var == around) return std::vector<LoopRef>(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end());
  }
  return fail(ErrorCode::E230, "the block is not under the loop");
}

Result<std::vector<bool>> independent_loops(const Schedule& s, const Loops& loops) {
  const std::vector<BlockSite> sites = block_sites(s.func());
  ParallelCheck check(s.func(), sites);
  std::vector<bool> are;
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    const auto* node = stmt.as<ForNode>();
    // One step of a reduction depends on no other, but what has no step is still to begin.
    const bool reduces = std::ranges::any_of(blocks_under(node->body), [&](const BlockNode* block) {
      return std::ranges::any_of(block->iters, [&](const IterVar& iter) {
        return iter.kind == IterKind::kReduce && uses_var(iter.binding, node->var.get());
      });
    });
    are.push_back(!reduces && node->loop_kind == ForKind::kSerial && check.check(*node).has_value());
  }
  return are;
}

Loops first_run(const Loops& loops, const std::vector<bool>& are_independent) {
  const auto begin = std::ranges::find(are_independent, true);
  const auto end = std::find(begin, are_independent.end(), false);
  return {loops.begin() + (begin - are_independent.begin()), loops.begin() + (end - are_independent.begin())};
}

Result<> check_on_device(const Func& func, const Target& target) {
  FETTLE_TRY_VOID(verify(func, target, {.races = false}));
  return lower_for_device(func, target).map([](const DeviceProgram&) {});
}

}  // namespace fettle
