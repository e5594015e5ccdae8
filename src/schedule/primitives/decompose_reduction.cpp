#include "schedule/primitives/decompose_reduction.h"

#include <algorithm>

#include "base/checks.h"
#include "ir/compare.h"
#include "schedule/arguments.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/dataflow/repetition.h"
#include "schedule/edit/edit_in_place.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// The nest that runs the init of `block` for all that `loops` cover.
Stmt init_nest(const std::string& name, const BlockNode& block, const std::vector<const ForNode*>& loops) {
  VarMap loop_vars, iter_vars;
  std::vector<const ForNode*> repeated, on_steps;  // loops of spatial iterators / of others, with several iterations
  for (const ForNode* loop : loops) {
    if (!moves_with(block, IterKind::kSpatial, *loop)) {
      if (!is_one(loop->extent)) on_steps.push_back(loop);
      // Of a loop of one iteration only the value is left, in conditions.
      if (is_one(loop->extent)) loop_vars[loop->var.get()] = substitute(loop->min, loop_vars);
      continue;
    }
    repeated.push_back(loop);
    loop_vars[loop->var.get()] = make_var(loop->var->name);
  }
  auto init = make_ref<BlockNode>();
  init->name = name;
  for (const IterVar& iter : block.iters) {
    if (iter.kind != IterKind::kSpatial) continue;
    Var fresh = make_var(iter.var->name);
    iter_vars[iter.var.get()] = fresh;
    init->iters.push_back({fresh, iter.extent, IterKind::kSpatial, substitute(iter.binding, loop_vars)});
  }
  for (const Expr& condition : conjuncts(block.predicate)) {
    if (!uses_any(condition, on_steps))
      init->predicate = logical_and(init->predicate, substitute(condition, loop_vars));
  }
  init_regions(*init, block, iter_vars);
  Stmt nest = init;
  for (size_t i = repeated.size(); i-- > 0;)
    nest = with(*repeated[i], [&](ForNode& f) {
      f.var = Var(loop_vars[f.var.get()].as<VarNode>());
      f.min = substitute(f.min, loop_vars);
      f.extent = substitute(f.extent, loop_vars);
      f.body = nest;
    });
  return nest;
}

Result<Applied> apply_decompose_reduction(const Schedule& s, const DecomposeReductionArgs& args) {
  const Func& func = s.func();
  FETTLE_TRY(const BlockAndLoop given, block_and_loop(s, args.block, args.loop));
  const BlockNode *const block = given.block, *const scope = given.scope;
  const ForNode* const loop = given.loop;
  if (!block->init) return refused(ErrorCode::E212, func, block, "block {} has no init", block->name);
  FETTLE_TRY_VOID(check_complete(ErrorCode::E212, func, *block, *scope, true));

  const std::vector<const ForNode*> around = loops_around(func, block);
  const auto at = std::ranges::find(around, loop);
  if (at == around.end())
    return refused(ErrorCode::E207, func, loop, "loop {} does not enclose block {}", loop->var->name, block->name);
  const std::vector<const ForNode*> carried = carried_loops(*block, around);
  const std::vector<const ForNode*> outer(around.begin(), at), inner(at, around.end());
  for (const ForNode* other : outer)
    if (std::ranges::find(carried, other) != carried.end() && checks("decompose_reduction.outer"))
      return refused(ErrorCode::E227, func, other, "reduction loop {} lies outside of loop {}", other->var->name,
                     loop->var->name);
  if (!runs_once(func, *block, inner) && checks("decompose_reduction.once"))
    return refused(ErrorCode::E227, func, loop, "block {} may run twice for one point below loop {}", block->name,
                   loop->var->name);

  if (const BlockNode* maker = makes_for_init(given.loop_stmt, *block); maker && checks("decompose_reduction.reads"))
    return refused(ErrorCode::E227, func, maker, "block {} below loop {} makes what the init of block {} reads",
                   maker->name, loop->var->name, block->name);
  const std::string name = unique_block_name(func, block->name + "_init");
  const Stmt init = init_nest(name, *block, inner);
  const Stmt update = with(*block, [](BlockNode& b) {
    b.init = nullptr;
    drop_unread(b);  // what the init alone read, a bias say
  });
  const Stmt nest = replace_stmt(given.loop_stmt, block, update);
  return Applied{replace_last(s, loop, seq({init, nest})), {name}};
}

}  // namespace

extern constinit const PrimitiveDef decompose_reduction_def =
    define_primitive<DecomposeReductionArgs, apply_decompose_reduction>("decompose_reduction", 1);

Result<BlockRef> decompose_reduction(Schedule& s, const DecomposeReductionArgs& args) {
  return run<BlockRef>(s, decompose_reduction_def, args);
}

}  // namespace fettle
