#include "schedule/primitives/rfactor.h"

#include <algorithm>

#include "base/checks.h"
#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// What the steps below share.
struct Plan {
  Func func;
  const BlockNode* block;
  const ForNode* factored;
  Combiner combiner;
  std::vector<const ForNode*> nest;     // from the outermost loop that stands around this block alone
  std::vector<const ForNode*> carried;  // those of them on which the reduction depends
  size_t axis = 0;
  Buffer partial;
};

// The partial results' element: that of C, with `factor` at the new axis.
std::vector<Expr> element(const Plan& p, std::vector<Expr> indices, const Expr& factor) {
  indices.insert(indices.begin() + static_cast<std::ptrdiff_t>(p.axis), factor);
  return indices;
}

// The conditions under which an element of C gets anything at all: those without the reduction's loops.
Result<Expr> spatial_conditions(const Plan& p) {
  Expr kept;
  for (const Expr& condition : conjuncts(p.block->predicate)) {
    VarMap first;  // every other reduction loop at its first iteration
    bool on_reduction = false;
    for (const ForNode* loop : p.carried) {
      on_reduction |= uses_var(condition, loop->var.get());
      if (loop != p.factored) first[loop->var.get()] = loop->min;
    }
    if (!on_reduction) {
      kept = logical_and(kept, condition);
      continue;
    }
    Analyzer analyzer = analyzer_over(p.func, loops_around(p.func, p.block));
    if (!analyzer.can_prove(substitute(condition, first)) && checks("rfactor.init"))
      return refused(ErrorCode::E227, p.func, p.block,
                     "a condition on the reduction of block {} may skip the first term of a partial result",
                     p.block->name);
  }
  return kept;
}

// C_rf[vk0, …] op= f
Stmt partial_block(const Plan& p, const std::string& name) {
  auto fresh = make_ref<BlockNode>(*p.block);
  fresh->name = name;
  fresh->iters.clear();
  VarMap loops, iters;
  for (const IterVar& iter : p.block->iters)
    if (iter.kind == IterKind::kSpatial) fresh->iters.push_back(iter);
  const Var factor = make_var("v" + p.factored->var->name);
  fresh->iters.push_back({factor, p.factored->extent, IterKind::kSpatial, simplify(p.factored->var - p.factored->min)});
  for (const ForNode* loop : p.carried) {
    if (loop == p.factored) {
      loops[loop->var.get()] = factor + loop->min;
      continue;
    }
    const Var var = make_var("v" + loop->var->name);
    fresh->iters.push_back({var, loop->extent, IterKind::kReduce, simplify(loop->var - loop->min)});
    loops[loop->var.get()] = var + loop->min;
  }
  for (const IterVar& iter : p.block->iters)
    if (iter.kind == IterKind::kReduce) iters[iter.var.get()] = simplify(substitute(iter.binding, loops));
  const std::vector<Expr> at = element(p, p.combiner.update->indices, factor);
  fresh->init = store(p.partial, at, p.combiner.init->value);
  fresh->body =
      store(p.partial, at, accumulated(p.combiner.op, load(p.partial, at), substitute(p.combiner.term, iters)));
  fresh->reads.clear();
  for (const Region& read : substitute(p.block->reads, iters))
    if (read.buffer != p.combiner.update->buffer) fresh->reads.push_back(read);
  fresh->writes = {point_region(p.partial, at)};
  // Its reduction may be over already.
  const bool reduces = std::ranges::any_of(fresh->iters, [](const IterVar& i) { return i.kind == IterKind::kReduce; });
  if (!reduces) {
    fresh->init = nullptr;
    fresh->body =
        store(p.partial, at, accumulated(p.combiner.op, p.combiner.init->value, substitute(p.combiner.term, iters)));
  }
  return fresh;
}

// C op= C_rf, in loops of its own.
Stmt final_nest(const Plan& p, const Expr& predicate) {
  auto fresh = make_ref<BlockNode>(*p.block);
  fresh->iters.clear();
  VarMap loops, iters;
  std::vector<std::pair<Var, Range>> list;
  Var factor_loop;
  for (const ForNode* loop : p.nest) {
    if (loop != p.factored && !moves_with(*p.block, IterKind::kSpatial, *loop)) {
      loops[loop->var.get()] = loop->min;  // extent 1, or a reduction's
      continue;
    }
    const Var var = make_var(loop->var->name);
    list.push_back({var, substitute(Range{loop->min, loop->extent}, loops)});
    loops[loop->var.get()] = var;
    if (loop == p.factored) factor_loop = var;
  }
  for (const IterVar& iter : p.block->iters) {
    if (iter.kind != IterKind::kSpatial) continue;
    const Var var = make_var(iter.var->name);
    iters[iter.var.get()] = var;
    fresh->iters.push_back({var, iter.extent, IterKind::kSpatial, substitute(iter.binding, loops)});
  }
  const Var factor = make_var("v" + p.factored->var->name);
  fresh->iters.push_back(
      {factor, p.factored->extent, IterKind::kReduce, simplify(factor_loop - substitute(p.factored->min, loops))});
  fresh->predicate = predicate ? substitute(predicate, loops) : Expr();
  std::vector<Expr> indices = p.combiner.update->indices;
  for (Expr& index : indices) index = substitute(index, iters);
  const Buffer& out = p.combiner.update->buffer;
  const std::vector<Expr> from = element(p, indices, factor);
  fresh->init = store(out, indices, p.combiner.init->value);
  fresh->body = store(out, indices, accumulated(p.combiner.op, load(out, indices), load(p.partial, from)));
  fresh->reads = {point_region(p.partial, from)};
  fresh->writes = {point_region(out, indices)};
  return wrap_loops(list, fresh);
}

Result<Applied> apply_rfactor(const Schedule& s, const RfactorArgs& args) {
  FETTLE_TRY(const Stmt block_stmt, s.block(args.block));
  FETTLE_TRY(const Stmt loop_stmt, s.loop(args.loop));
  const Func& func = s.func();
  Plan p{func, block_stmt.as<BlockNode>(), loop_stmt.as<ForNode>(), {}, {}, {}, 0, {}};
  const BlockNode& block = *p.block;
  const BlockNode* scope = enclosing_block(func, p.block);
  if (!scope) return refused(ErrorCode::E212, func, p.block, "the root block is no reduction");
  if (const std::string why = why_not_complete(block, *scope, true); !block.init || !why.empty())
    return refused(ErrorCode::E212, func, p.block, "block {}: {}", block.name, why.empty() ? "it has no init" : why);
  FETTLE_TRY(p.combiner, match_combiner(func, block));

  const std::vector<const ForNode*> around = loops_around(func, p.block);
  const auto at = std::ranges::find(around, p.factored);
  if (at == around.end())
    return refused(ErrorCode::E207, func, p.factored, "loop {} does not enclose block {}", p.factored->var->name,
                   block.name);
  if (p.factored->loop_kind != ForKind::kSerial)
    return refused(ErrorCode::E201, func, p.factored, "loop {} is not serial", p.factored->var->name);
  auto top = around.end();
  while (top != around.begin() && blocks_under((*(top - 1))->body).size() == 1) --top;
  p.nest.assign(top, around.end());
  p.carried = carried_loops(block, around);
  for (const ForNode* loop : p.carried) {
    if (std::ranges::find(p.nest, loop) == p.nest.end())
      return refused(ErrorCode::E207, func, loop, "reduction loop {} encloses other blocks, too", loop->var->name);
    if (moves_with(block, IterKind::kSpatial, *loop))
      return refused(ErrorCode::E212, func, loop, "loop {} is both of the reduction and of the output",
                     loop->var->name);
  }
  if (std::ranges::find(p.carried, p.factored) == p.carried.end())
    return refused(ErrorCode::E212, func, p.factored, "loop {} is no reduction loop of block {}", p.factored->var->name,
                   block.name);
  if (!as_int(p.factored->extent))
    return refused(ErrorCode::E221, func, p.factored, "the extent of loop {} is not a constant", p.factored->var->name);
  const Buffer& out = p.combiner.update->buffer;
  const auto rank = static_cast<int64_t>(out->shape.size());
  const int64_t axis = args.factor_axis < 0 ? args.factor_axis + rank + 1 : args.factor_axis;
  if (axis < 0 || axis > rank)
    return refused(ErrorCode::E220, func, p.block, "{} has {} dimensions, no place {} for another", out->name, rank,
                   args.factor_axis);
  p.axis = static_cast<size_t>(axis);
  p.partial =
      make_buffer(unique_buffer_name(func, out->name + "_rf"), element(p, out->shape, p.factored->extent), out->dtype);
  FETTLE_TRY(const Expr predicate, spatial_conditions(p));

  const std::string name = unique_block_name(func, block.name + "_rf");
  const StmtNode* anchor = p.nest.front();
  Stmt first = replace_stmt(path_to(func->body, anchor).back(), p.block, partial_block(p, name));
  Func result =
      edit_scope(func, scope->name,
                 {.anchor = anchor, .replacement = first, .after = final_nest(p, predicate), .allocate = {p.partial}});
  return Applied{result, {name}};
}

}  // namespace

extern constinit const PrimitiveDef rfactor_def = define_primitive<RfactorArgs, apply_rfactor>("rfactor", 1);

Result<BlockRef> rfactor(Schedule& s, const RfactorArgs& args) { return run<BlockRef>(s, rfactor_def, args); }

}  // namespace fettle
