#include "schedule/edit/placement.h"

#include <algorithm>

#include "base/check.h"
#include "base/checks.h"
#include "ir/path.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/dataflow/repetition.h"
#include "schedule/edit/steps.h"
#include "schedule/primitives/rolling_buffer.h"

namespace fettle {

size_t Move::index(const BlockNode* b) const {
  return static_cast<size_t>(std::ranges::find(order, b) - order.begin());
}

bool Move::is_inside(const BlockNode* b) const { return std::ranges::find(inside, b) != inside.end(); }

Result<Move> plan_move(const Schedule& s, const BlockRef& block_ref, const LoopRef& loop_ref) {
  FETTLE_TRY(const Stmt block_stmt, s.block(block_ref));
  FETTLE_TRY(const Stmt loop_stmt, s.loop(loop_ref));
  const Func& func = s.func();
  Move move;
  move.block = block_stmt.as<BlockNode>();
  move.loop = loop_stmt.as<ForNode>();
  move.scope = enclosing_block(func, move.block);
  if (move.loop->loop_kind == ForKind::kVectorized)
    return refused(ErrorCode::E201, func, move.loop, "loop {} is vectorized", move.loop->var->name);
  if (!move.scope || enclosing_block(func, move.loop) != move.scope)
    return refused(ErrorCode::E207, func, move.loop, "loop {} and block {} are in different blocks",
                   move.loop->var->name, move.block->name);
  move.order = blocks_of(*move.scope);
  move.inside = blocks_under(move.loop->body);
  if (move.is_inside(move.block))
    return refused(ErrorCode::E207, func, move.loop, "loop {} encloses block {} already", move.loop->var->name,
                   move.block->name);
  FETTLE_TRY_VOID(check_not_rolling(func, *move.block));
  if (const std::string why = why_not_complete(*move.block, *move.scope, true); !why.empty())
    return refused(ErrorCode::E211, func, move.block, "block {}: {}", move.block->name, why);
  if (!predicate_only_bounds(func, *move.block) && checks("move.predicate"))
    return refused(ErrorCode::E211, func, move.block, "the predicate of block {} does more than bound its iterators",
                   move.block->name);
  const std::vector<const ForNode*> around = loops_around(func, move.block);
  move.alone = around.empty() || blocks_under(around.front()->body).size() == 1;
  const ForNode* loop = move.alone ? nullptr : must_stay_below(func, *move.block, move.loop);
  if (loop && checks("must_stay_below"))
    return refused(ErrorCode::E211, func, move.block, "block {} reads what each iteration of loop {} makes anew",
                   move.block->name, loop->var->name);
  return move;
}

Result<> check_keeps_steps(const Schedule& s, const Move& move, const std::vector<Range>& ranges) {
  const Func& func = s.func();
  if (move.alone) return {};  // nothing is made there
  std::vector<const ForNode*> kept = loops_around(func, move.loop);
  kept.push_back(move.loop);
  const std::vector<const ForNode*> around = loops_around(func, move.block);
  std::vector<const ForNode*> left;
  std::ranges::copy_if(around, std::back_inserter(left),
                       [&](const ForNode* loop) { return std::ranges::find(kept, loop) == kept.end(); });
  // Of each iterator, what the block does where it is now, for the loops that it stays in.
  Footprint now(func, kept, left);
  Analyzer& analyzer = now.analyzer();
  const auto stays_within = [&](const Range& range, const IterVar& iter) {
    if (is_one(range.extent) && analyzer.can_prove_equal(range.min, iter.binding)) return true;
    const auto done = now.of(Range{iter.binding, int_imm(1)});
    return done && analyzer.can_prove(ge(range.min, done->min)) &&
           analyzer.can_prove(le(range.min + range.extent, done->min + done->extent));
  };
  for (const ForNode* loop : around) {
    if (std::ranges::find(kept, loop) == kept.end()) continue;
    bool within = true;
    for (size_t i = 0; i < ranges.size() && within; ++i)
      within =
          !uses_var(move.block->iters[i].binding, loop->var.get()) || stays_within(ranges[i], move.block->iters[i]);
    if (within) continue;
    const std::vector<const BlockNode*> below = blocks_under(loop->body);
    for (const Region& read : move.block->reads) {
      const bool made_there = std::ranges::any_of(
          below, [&](const BlockNode* block) { return write_region(*block, read.buffer.get()) != nullptr; });
      if (made_there && checks("must_stay_below"))
        return refused(ErrorCode::E211, func, move.block,
                       "block {} reads what each iteration of loop {} makes, and would run in others", move.block->name,
                       loop->var->name);
    }
  }
  return {};
}

IterPlace place_over(const Range& range, bool preserve_unit_loops, LoopList& loops) {
  if (is_one(range.extent) && !preserve_unit_loops) return {range.min};
  Var loop = make_var("ax" + std::to_string(loops.size()));
  loops.push_back({loop, {int_imm(0), range.extent}});
  return {range.min + loop};
}

Stmt nest_around(const BlockNode& block, const LoopList& loops, const std::vector<IterPlace>& places, Expr predicate,
                 Analyzer& analyzer) {
  FETTLE_CHECK(places.size() == block.iters.size());
  const auto scope = analyzer.enter();
  for (const auto& [var, range] : loops) analyzer.bind(var, range.min, range.extent);
  auto moved = make_ref<BlockNode>(block);
  Expr bounds;
  for (size_t i = 0; i < places.size(); ++i) {
    IterVar& iter = moved->iters[i];
    iter.binding = analyzer.simplify(places[i].binding);
    if (!places[i].in_bounds) bounds = logical_and(bounds, bounds_predicate(analyzer, iter.binding, iter.extent));
  }
  // What the predicate says already need not be said again.
  for (const Expr& condition : conjuncts(bounds)) {
    const auto known = analyzer.assume(predicate);
    if (!analyzer.can_prove(condition)) predicate = logical_and(predicate, condition);
  }
  moved->predicate = is_true(predicate) ? Expr() : predicate;
  return wrap_loops(loops, moved);
}

const ForNode* find_loop(const Stmt& s, const VarNode* var) {
  return find_node<ForNode>(s, [&](const ForNode& loop) { return loop.var.get() == var; });
}

Func move_nest(const Func& func, const Move& move, const Stmt& nest, const BlockNode* before) {
  // `before` is the only node that is looked up by its name afterwards: its identity may change with the removal.
  const std::string before_name = before ? before->name : std::string();
  Func without = replace_in(func, move.block, nullptr);
  const ForNode* loop = find_loop(without->body, move.loop->var.get());
  FETTLE_CHECK(loop);
  if (!before) {
    const Stmt body = seq({loop->body, nest});
    const Stmt fresh = with(*loop, [&](ForNode& f) { f.body = body; });
    return replace_owned(std::move(without), loop, fresh);
  }
  const std::vector<Stmt> path = path_to(loop->body, find_block(loop->body, before_name));
  const StmtNode* at = path.size() > 1 && path[0].kind() == StmtKind::kSeq ? path[1].get() : path[0].get();
  const Stmt body = replace_stmt(loop->body, at, seq({nest, path_to(loop->body, at).back()}));
  return replace_in(without, loop, with(*loop, [&](ForNode& f) { f.body = body; }));
}

bool unify(const Expr& pattern, const Expr& target, const std::vector<const VarNode*>& free, VarMap& solved) {
  if (const auto* var = pattern.as<VarNode>(); var && std::ranges::find(free, var) != free.end()) {
    const auto [at, fresh] = solved.try_emplace(var, target);
    return fresh || structural_equal(at->second, target);
  }
  const auto* p = pattern.as<BinaryNode>();
  const auto* t = target.as<BinaryNode>();
  if (p && t && p->op == t->op) return unify(p->a, t->a, free, solved) && unify(p->b, t->b, free, solved);
  return structural_equal(pattern, target);
}

bool unify(const std::vector<Expr>& pattern, const std::vector<Expr>& target, const std::vector<const VarNode*>& free,
           VarMap& solved) {
  if (pattern.size() != target.size()) return false;
  for (size_t d = 0; d < pattern.size(); ++d)
    if (!unify(pattern[d], target[d], free, solved)) return false;
  return true;
}

std::vector<const VarNode*> iter_vars(const std::vector<IterVar>& iters) {
  std::vector<const VarNode*> vars;
  for (const IterVar& iter : iters) vars.push_back(iter.var.get());
  return vars;
}

std::vector<Expr> canonical_indices(const std::vector<Expr>& indices, const std::vector<IterVar>& iters) {
  Analyzer analyzer;
  for (const IterVar& iter : iters) analyzer.bind(iter.var, int_imm(0), iter.extent);
  std::vector<Expr> result;
  for (const Expr& index : indices) result.push_back(analyzer.simplify(index));
  return result;
}

}  // namespace fettle
