#include "schedule/primitives/cache_inplace.h"

#include <algorithm>

#include "base/checks.h"
#include "schedule/arguments.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/dataflow/leaf.h"
#include "schedule/dataflow/repetition.h"
#include "schedule/edit/staging.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// The nest of one transfer of the tile. `body` makes its statement from the iterators' variables (by those of the
// block) and the condition that a step is the first.
template <class Body>
Stmt transfer(const std::string& name, const IterationTile& plain, const std::vector<const ForNode*>& carried,
              Body body) {
  auto block = make_ref<BlockNode>();
  block->name = name;
  VarMap loop_vars, iter_vars;
  std::vector<std::pair<Var, Range>> loops;
  for (const auto& [var, range] : plain.loops) {
    Var fresh = make_var(var->name);
    loops.push_back({fresh, substitute(range, loop_vars)});
    loop_vars[var.get()] = fresh;
  }
  for (size_t i = 0; i < plain.iters.size(); ++i) {
    Var fresh = make_var(plain.iters[i]->var->name);
    iter_vars[plain.iters[i]->var.get()] = fresh;
    block->iters.push_back(
        {fresh, plain.iters[i]->extent, IterKind::kSpatial, substitute(plain.bindings[i], loop_vars)});
  }
  Expr first;
  for (const ForNode* loop : carried) {
    Var step = make_var("step_" + loop->var->name);
    block->iters.push_back({step, loop->extent, IterKind::kScan, simplify(loop->var - loop->min)});
    first = logical_and(first, eq(step, int_imm(0)));
  }
  block->predicate = plain.predicate ? substitute(plain.predicate, loop_vars) : Expr();
  block->body = body(iter_vars, first);
  Analyzer analyzer;
  infer_regions(*block, analyzer);
  return wrap_loops(loops, block);
}

Result<Applied> apply_cache_inplace(const Schedule& s, const CacheInplaceArgs& args) {
  const Func& func = s.func();
  FETTLE_TRY(const BlockAndLoop given, block_and_loop(s, args.block, args.loop));
  const BlockNode *const block = given.block, *const scope = given.scope;
  const ForNode* const loop = given.loop;
  FETTLE_TRY(const Buffer buffer, write_buffer(*block, args.write_index));
  FETTLE_TRY_VOID(check_scope(s, args.scope, block));
  const auto stores = stores_of(block->body, buffer.get());
  const auto* init = block->init ? block->init.as<StoreNode>() : nullptr;
  const auto is_there = [&](const std::vector<Expr>& other) { return structural_equal(other, stores.front()); };
  bool same_place = stores.size() == 1;
  if (block->init) {
    FETTLE_TRY_VOID(check_complete(ErrorCode::E212, func, *block, *scope, true));
    same_place = same_place && init && block->writes.size() == 1 && is_there(init->indices);
  } else {
    const auto scans = [](const IterVar& iter) { return iter.kind == IterKind::kScan; };
    if (std::ranges::none_of(block->iters, scans))
      return refused(ErrorCode::E212, func, block, "block {} has no init, and is no scan", block->name);
    same_place = same_place && std::ranges::all_of(loads_of(block->body, buffer.get()), is_there);
  }
  if (!same_place)
    return refused(ErrorCode::E212, func, block, "block {} does not clear and update one element", block->name);

  const std::vector<const ForNode*> around = loops_around(func, block);
  const auto at = std::ranges::find(around, loop);
  if (at == around.end())
    return refused(ErrorCode::E207, func, loop, "loop {} does not enclose block {}", loop->var->name, block->name);
  const std::vector<const ForNode*> outer(around.begin(), at + 1), inner(at + 1, around.end());
  const std::vector<const ForNode*> carried = carried_loops(*block, outer);
  for (const ForNode* other : carried)
    if (moves_with(*block, IterKind::kSpatial, *other) && checks("cache_inplace.carried"))
      return refused(ErrorCode::E216, func, other,
                     "loop {} moves through the reduction and the output of block {} at once", other->var->name,
                     block->name);
  if (!runs_once(func, *block, inner) && checks("cache_inplace.once"))
    return refused(ErrorCode::E227, func, loop, "block {} may run twice for one point below loop {}", block->name,
                   loop->var->name);
  const std::vector<Stmt> path = path_to(loop->body, block);
  const Stmt part = path.size() > 1 && path[0].kind() == StmtKind::kSeq ? path[1] : path[0];
  if (const BlockNode* maker = makes_for_init(part, *block); maker && checks("cache_inplace.reads"))
    return refused(ErrorCode::E227, func, maker,
                   "block {} makes what the init of block {} reads, after the tile would begin with it", maker->name,
                   block->name);
  for (const BlockNode* other : blocks_under(part))
    if (checks("cache_inplace.users") && other != block && names_buffer(*other, buffer.get()))
      return refused(ErrorCode::E215, func, other, "block {} uses {} before it would be stored", other->name,
                     buffer->name);
  const IterationTile tile = tile_of(func, *block, outer, inner);

  const Buffer cache = cache_buffer(func, buffer, args.scope);
  const std::string load_name = unique_block_name(func, buffer->name + "_" + args.scope + "_load");
  const std::string store_name = unique_block_name(func, buffer->name + "_" + args.scope + "_store");
  const auto element = [&](const VarMap& vars) {
    std::vector<Expr> indices;
    for (const Expr& index : stores.front()) indices.push_back(substitute(index, vars));
    return indices;
  };
  const Stmt loading = transfer(load_name, tile, carried, [&](const VarMap& vars, const Expr& first) {
    if (!init) return store(cache, element(vars), load(buffer, element(vars)));
    const Expr start = substitute(init->value, vars);
    return store(cache, element(vars), is_true(first) ? start : select(first, start, load(buffer, element(vars))));
  });
  const Stmt storing = transfer(store_name, tile, carried, [&](const VarMap& vars, const Expr&) {
    return store(buffer, element(vars), load(cache, element(vars)));
  });
  const Stmt update = with(*with_buffer(*block, buffer, cache).as<BlockNode>(), [](BlockNode& b) {
    if (!b.init) return;
    b.init = nullptr;
    drop_unread(b);  // what the init alone read, a bias say
  });

  const Stmt updated = part.get() == block ? update : replace_stmt(part, block, update);
  const Stmt body = replace_stmt(loop->body, part.get(), seq({loading, updated, storing}));
  Func result = replace_in(func, loop, with(*loop, [&](ForNode& f) { f.body = body; }));
  result = edit_scope(result, scope->name, {.allocate = {cache}});
  return Applied{result, {load_name, store_name}};
}

}  // namespace

extern constinit const PrimitiveDef cache_inplace_def =
    define_primitive<CacheInplaceArgs, apply_cache_inplace>("cache_inplace", 1);

Result<std::vector<BlockRef>> cache_inplace(Schedule& s, const CacheInplaceArgs& args) {
  return run<std::vector<BlockRef>>(s, cache_inplace_def, args);
}

}  // namespace fettle
