#include "tune/space/rule.h"

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"

namespace fettle {

Result<int64_t> choose(RuleContext& ctx, const std::string& name, const std::vector<int64_t>& candidates,
                       size_t preferred, std::vector<double> weights) {
  return ctx.decider->pick(ctx.schedule, {name, candidates, preferred, std::move(weights)});
}

Result<std::vector<LoopRef>> loops_of_block(RuleContext& ctx, BlockRef block) {
  return get_loops(ctx.schedule, {.block = block});
}

Result<const BlockNode*> block_node(const RuleContext& ctx, BlockRef block) {
  FETTLE_TRY(const Stmt stmt, ctx.schedule.block(block));
  return stmt.as<BlockNode>();  // owned by the schedule's program
}

Result<int64_t> loop_extent(const RuleContext& ctx, LoopRef loop) {
  FETTLE_TRY(const Stmt stmt, ctx.schedule.loop(loop));
  const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
  return extent ? *extent : int64_t{0};
}

Result<> vectorize_copy(RuleContext& ctx, BlockRef block, size_t first, int64_t lanes, bool unroll_rows) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const std::vector<LoopRef> all, loops_of_block(ctx, block));
  std::vector<LoopRef> own(all.begin() + static_cast<std::ptrdiff_t>(std::min(first, all.size())), all.end());
  if (own.empty()) return {};
  FETTLE_TRY(const BlockNode* node, block_node(ctx, block));
  std::vector<Var> vars;
  for (const LoopRef& loop : own) {
    FETTLE_TRY(const Var var, s.loop_var(loop));
    vars.push_back(var);
  }
  VarMap bindings;
  for (const IterVar& iter : node->iters) bindings[iter.var.get()] = iter.binding;
  const StoreNode* store = single_store(*node);
  size_t vector = own.size();
  if (store) {
    std::vector<Expr> indices;
    for (const Expr& index : store->indices) indices.push_back(substitute(index, bindings));
    const std::vector<int64_t> strides = access_strides(*store->buffer, indices, vars);
    for (size_t i = 0; i < own.size(); ++i) {
      FETTLE_TRY(const int64_t extent, loop_extent(ctx, own[i]));
      if (strides[i] == 1 && extent > 1) vector = i;
      // Channels in blocks of one vector: contiguous within a block.
      if (strides[i] == AccessPattern::kIrregular && extent % lanes == 0 && uses_var(indices.back(), vars[i].get()) &&
          vector == own.size())
        vector = i;
    }
  }
  std::vector<LoopRef> order;
  if (vector < own.size()) {
    FETTLE_TRY(const int64_t extent, loop_extent(ctx, own[vector]));
    LoopRef inner = own[vector];
    LoopRef outer;
    if (extent != lanes) {
      FETTLE_TRY(const std::vector<LoopRef> parts,
                 split(s, {.loop = own[vector], .factors = {kInfer, lanes}, .tail = Tail::kMask}));
      outer = parts[0];
      inner = parts[1];
      order.push_back(outer);
    }
    for (size_t i = 0; i < own.size(); ++i)
      if (i != vector) order.push_back(own[i]);
    order.push_back(inner);
    if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
    FETTLE_TRY_VOID(vectorize(s, {.loop = inner}));
    order.pop_back();
  } else {
    order = own;
  }
  if (unroll_rows)
    for (const LoopRef& loop : order) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  return {};
}

Result<> parallelize(RuleContext& ctx, std::vector<LoopRef> loops, bool a_piece_each) {
  if (ctx.threads <= 1) return {};
  const int64_t threads = ctx.threads;
  // How much of the threads' time is used where `n` equal pieces are dealt out.
  const auto balance = [&](int64_t n) {
    return static_cast<double>(n) / static_cast<double>((n + threads - 1) / threads * threads);
  };
  struct Info {
    LoopRef loop;
    int64_t extent;
    bool tail;
  };
  std::vector<Info> infos;
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Stmt stmt, ctx.schedule.loop(loop));
    const auto* node = stmt.as<ForNode>();
    const int64_t* extent = as_int(node->extent);
    if (!extent || node->loop_kind != ForKind::kSerial) break;
    infos.push_back({loop, *extent, node->tail != Tail::kExact});
  }
  double best = 0;
  size_t begin = 0, end = 0;
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].extent == 1) continue;
    int64_t n = 1;
    int tails = 0;
    for (size_t j = i; j < infos.size(); ++j) {
      n *= infos[j].extent;
      tails += infos[j].tail ? 1 : 0;
      if (tails > 1) break;
      // Outer loops first; each fused loop costs a division, each outer serial loop a fork.
      double score = balance(n) - 0.02 * static_cast<double>(j - i);
      for (size_t outside = 0; outside < i; ++outside)
        if (infos[outside].extent > 1) score -= 0.04;
      if (score > best + 1e-9) {
        best = score;
        begin = i;
        end = j + 1;
      }
    }
  }
  if (end == begin) return {};
  // On a copy, since a loop that turns out to be carried is not worth failing for.
  Schedule trial = ctx.schedule;
  LoopRef loop = infos[begin].loop;
  if (end - begin > 1) {
    std::vector<LoopRef> group;
    for (size_t i = begin; i < end; ++i) group.push_back(infos[i].loop);
    if (auto fused = fuse(trial, {.loops = group}))
      loop = *fused;
    else
      trial = ctx.schedule;
  }
  FETTLE_TRY(const Stmt chosen, trial.loop(loop));
  if (const int64_t* n = as_int(chosen.as<ForNode>()->extent); a_piece_each && n && *n > threads) {
    const Tail tail = *n % threads == 0 ? Tail::kExact : Tail::kGuard;
    FETTLE_TRY(const auto pieces, split(trial, {.loop = loop, .factors = {threads, kInfer}, .tail = tail}));
    loop = pieces[0];
  }
  if (parallel(trial, {.loop = loop})) {
    ctx.schedule = std::move(trial);
    return {};
  }
  for (const Info& info : infos) {
    if (info.extent == 1) continue;
    if (parallel(ctx.schedule, {.loop = info.loop})) return {};
  }
  return {};
}

}  // namespace fettle
