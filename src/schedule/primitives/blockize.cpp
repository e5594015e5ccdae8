#include "schedule/primitives/blockize.h"

#include <algorithm>

#include "analysis/sites.h"
#include "base/checks.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/dataflow/repetition.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// An iterator of the block: v = outer * size + inner, with inner in [0, size).
struct Part {
  Var outer;           // of the new block; null where the whole of it is inside
  Expr outer_binding;  // in the loops outside
  Expr outer_extent;
  Expr inner;  // in the loops inside
  int64_t size = 1;

  Expr binding() const { return outer ? Expr(outer) * size + inner : inner; }
};

Result<std::vector<Part>> divide(const Func& func, const BlockNode& block, const std::vector<const ForNode*>& outer,
                                 const std::vector<const ForNode*>& inner) {
  Footprint footprint(func, outer, inner);
  Analyzer& analyzer = footprint.analyzer();
  std::vector<Part> parts;
  std::vector<const ExprNode*> used;  // inner loops, each part of one iterator
  for (const IterVar& iter : block.iters) {
    const auto refuse = [&](std::string_view why) {
      return refused(ErrorCode::E209, func, &block, "iterator {} of block {}: {}", iter.var->name, block.name, why);
    };
    const auto split = footprint.split(iter.binding);
    if (!split) return refuse("its binding is no sum of whole tiles and dense inner loops");
    for (const LinearTerm& term : split->inner.terms) {
      if (std::ranges::find(used, term.expr.get()) != used.end()) return refuse("it shares a loop with another one");
      used.push_back(term.expr.get());
    }
    Part& part = parts.emplace_back();
    part.size = split->extent;
    LinearForm tiles = split->outer, inside = split->inner;
    tiles.add_constant(split->inner_min);
    inside.add_constant(-split->inner_min);
    part.inner = analyzer.simplify(analyzer.to_expr(inside));
    for (LinearTerm& term : tiles.terms) {
      if (term.coeff % part.size != 0) return refuse(fmt::format("it does not start at multiples of {}", part.size));
      term.coeff /= part.size;
    }
    if (tiles.constant % part.size != 0) return refuse(fmt::format("it does not start at a multiple of {}", part.size));
    tiles.constant /= part.size;
    const int64_t* extent = as_int(iter.extent);
    if (tiles.is_zero() && (part.size > 1 || (extent && *extent == 1))) continue;  // all inside
    part.outer = make_var(iter.var->name + "o", iter.var->dtype);
    part.outer_binding = analyzer.simplify(analyzer.to_expr(tiles));
    part.outer_extent = analyzer.simplify(floordiv(iter.extent + Expr(part.size - 1), part.size));
  }
  return parts;
}

// What the block touches of a region while its tile runs.
Region tile_region(const Region& region, const VarMap& bindings, Footprint& footprint) {
  Region tile{region.buffer, {}};
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const Range& r = region.ranges[d];
    const auto found = footprint.of(substitute(r, bindings));
    tile.ranges.push_back(found ? *found : Range{0, region.buffer->shape[d]});
  }
  return tile;
}

// The init over the tile: those inner loops on which spatial iterators depend, with variables of their own.
Stmt init_nest(const Func& func, const BlockNode& inside, const std::vector<const ForNode*>& inner,
               Analyzer& analyzer) {
  VarMap loops, iters;
  std::vector<const ForNode*> repeated;
  auto init = make_ref<BlockNode>();
  init->name = unique_block_name(func, inside.name + "_init");
  for (const ForNode* loop : inner) {
    if (!moves_with(inside, IterKind::kSpatial, *loop)) continue;
    repeated.push_back(loop);
    const Var fresh = make_var(loop->var->name);
    loops[loop->var.get()] = fresh;
    analyzer.bind(fresh, loop->min, loop->extent);
  }
  for (const IterVar& iter : inside.iters) {
    if (iter.kind != IterKind::kSpatial) continue;
    const Var fresh = make_var(iter.var->name);
    iters[iter.var.get()] = fresh;
    const Expr binding = substitute(iter.binding, loops);
    init->iters.push_back({fresh, iter.extent, IterKind::kSpatial, binding});
    init->predicate = logical_and(init->predicate, bounds_predicate(analyzer, binding, iter.extent));
  }
  if (is_true(init->predicate)) init->predicate = nullptr;
  init_regions(*init, inside, iters);
  Stmt nest = init;
  for (size_t i = repeated.size(); i-- > 0;)
    nest = with(*repeated[i], [&](ForNode& f) {
      f.var = Var(loops[f.var.get()].as<VarNode>());
      f.body = nest;
    });
  return nest;
}

// What the predicate says of the loops outside alone (of tiles of unequal heights, say); null where that is nothing.
Expr condition_outside(const BlockNode& block, const std::vector<const ForNode*>& inner) {
  Expr outside;
  for (const Expr& condition : conjuncts(block.predicate)) {
    if (!uses_any(condition, inner)) outside = logical_and(outside, condition);
  }
  return outside;
}

Result<Applied> apply_blockize(const Schedule& s, const BlockizeArgs& args) {
  FETTLE_TRY(const Stmt loop_stmt, s.loop(args.loop));
  const Func& func = s.func();
  const auto* loop = loop_stmt.as<ForNode>();
  std::vector<const ForNode*> inner;
  Stmt at = loop_stmt;
  for (; at.as<ForNode>(); at = at.as<ForNode>()->body) inner.push_back(at.as<ForNode>());
  const auto* block = at.as<BlockNode>();
  if (!block)
    return refused(ErrorCode::E207, func, loop, "loop {} does not lead straight down to one block", loop->var->name);
  const std::vector<const ForNode*> outer = loops_around(func, loop);
  const Expr outside = condition_outside(*block, inner);
  if (!predicate_only_bounds(func, *block, outside))
    return refused(ErrorCode::E209, func, block, "the predicate of block {} does more than bound its iterators",
                   block->name);
  FETTLE_TRY(const std::vector<Part> parts, divide(func, *block, outer, inner));

  auto unit = make_ref<BlockNode>();
  unit->name = unique_block_name(func, block->name + "_o");
  auto inside = make_ref<BlockNode>(*block);
  unit->predicate = outside;
  Analyzer around = analyzer_over(func, outer);
  if (outside) around.add_assumption(outside);
  Analyzer within;
  within.bind_params(func);
  std::vector<Stmt> frame;  // the new iterators as loops, for the footprints
  std::vector<const ForNode*> frame_loops;
  bool reduces_outside = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (!part.outer) continue;
    unit->iters.push_back({part.outer, part.outer_extent, block->iters[i].kind, part.outer_binding});
    unit->predicate = logical_and(unit->predicate, bounds_predicate(around, part.outer_binding, part.outer_extent));
    reduces_outside |= block->iters[i].kind == IterKind::kReduce;
    frame.push_back(make_for(part.outer, 0, part.outer_extent, nullptr));
    frame_loops.push_back(frame.back().as<ForNode>());
  }
  if (is_true(unit->predicate)) unit->predicate = nullptr;
  bind_loops(within, frame_loops);
  {
    const auto scope = within.enter();
    bind_loops(within, inner);
    inside->predicate = nullptr;
    for (size_t i = 0; i < parts.size(); ++i) {
      inside->iters[i].binding = within.simplify(parts[i].binding());
      inside->predicate =
          logical_and(inside->predicate, bounds_predicate(within, inside->iters[i].binding, inside->iters[i].extent));
    }
    if (is_true(inside->predicate)) inside->predicate = nullptr;
  }
  if (block->init && reduces_outside && !runs_once(func, *block, inner) && checks("blockize.once"))
    return refused(ErrorCode::E227, func, loop, "block {} may run twice for one point below loop {}", block->name,
                   loop->var->name);
  if (block->init && reduces_outside) {
    unit->init = init_nest(func, *inside, inner, within);
    inside->init = nullptr;
    drop_unread(*inside);  // what the init alone read, a bias say
  }
  Footprint footprint(func, frame_loops, inner);
  const VarMap bindings = binding_map(*inside);
  for (const Region& read : block->reads) unit->reads.push_back(tile_region(read, bindings, footprint));
  for (const Region& write : block->writes) {
    unit->writes.push_back(tile_region(write, bindings, footprint));
    // An update whose init is elsewhere: the unit must not look as if it made its output anew.
    const bool updates =
        !block->init && (blocks_under(block->body).empty() ? !loads_of(block->body, write.buffer.get()).empty()
                                                           : read_region(*block, write.buffer.get()) != nullptr);
    if (updates && !read_region(*unit, write.buffer.get())) unit->reads.push_back(unit->writes.back());
  }
  unit->body = replace_stmt(loop_stmt, block, inside);
  return Applied{replace_in(func, loop, unit), {unit->name}};
}

}  // namespace

extern constinit const PrimitiveDef blockize_def = define_primitive<BlockizeArgs, apply_blockize>("blockize", 1);

Result<BlockRef> blockize(Schedule& s, const BlockizeArgs& args) { return run<BlockRef>(s, blockize_def, args); }

}  // namespace fettle
