#include "schedule/primitives/cache_write.h"

#include "analysis/sites.h"
#include "ir/path.h"
#include "schedule/dataflow/overwriting.h"
#include "schedule/edit/staging.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// The nest that copies what `block` writes below `top`: with no loop around, the hull of it; below a loop, or where the
// hull might reach into pad lanes or what other blocks wrote (`exact`), the instances that run there.
Stmt copy_back(const Func& func, const std::string& name, const BlockNode& block, const Stmt& top, const Buffer& cache,
               const Buffer& buffer, bool exact) {
  const std::vector<const ForNode*> outer = loops_around(func, top.get());
  const std::vector<const ForNode*> inner = loops_between(top, &block);
  const Region& region = *write_region(block, buffer.get());
  if (outer.empty() && !buffer->layout && !exact) {
    Footprint footprint(func, outer, inner);
    const VarMap bindings = binding_map(block);
    std::vector<Range> ranges;
    for (size_t d = 0; d < buffer->shape.size(); ++d) {
      const Range& written = region.ranges[d];
      const auto found = footprint.of(substitute(written, bindings));
      ranges.push_back(found ? clipped(*found, buffer->shape[d]) : Range{int_imm(0), buffer->shape[d]});
    }
    return copy_nest(name, cache, buffer, std::move(ranges), footprint.analyzer());
  }
  const IterationTile tile = tile_of(func, block, outer, inner);
  auto copy = make_ref<BlockNode>();
  copy->name = name;
  VarMap renamed;
  for (size_t i = 0; i < tile.iters.size(); ++i) {
    Var fresh = make_var(tile.iters[i]->var->name);
    renamed[tile.iters[i]->var.get()] = fresh;
    copy->iters.push_back({fresh, tile.iters[i]->extent, IterKind::kSpatial, tile.bindings[i]});
  }
  copy->predicate = tile.predicate;
  std::vector<Range> points;
  std::vector<Expr> indices;
  std::vector<std::pair<Var, Range>> loops = tile.loops;
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const Range& range = region.ranges[d];
    Expr index = substitute(range.min, renamed);
    if (!is_one(range.extent)) {  // of a block with blocks inside, the whole tile
      const Var loop = make_var("ax" + std::to_string(loops.size())), iter = make_var("v" + std::to_string(d));
      loops.push_back({loop, {int_imm(0), range.extent}});
      copy->iters.push_back({iter, range.extent, IterKind::kSpatial, loop});
      index = index + iter;
    }
    indices.push_back(index);
    points.push_back({index, int_imm(1)});
  }
  copy->reads = {{cache, points}};
  copy->writes = {{buffer, points}};
  copy->body = store(buffer, indices, load(cache, indices));
  return wrap_loops(loops, copy);
}

Result<Applied> apply_cache_write(const Schedule& s, const CacheWriteArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto* block = stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, write_buffer(*block, args.write_index));
  FETTLE_TRY_VOID(check_scope(s, args.scope, block));
  const BlockNode* scope = enclosing_block(func, block);
  if (const std::string why = why_not_complete(*block, *scope, true); !why.empty())
    return refused(ErrorCode::E211, func, block, "block {}: {}", block->name, why);

  if (is_in_init(*scope, block))
    return refused(ErrorCode::E211, func, block, "block {} is part of an init", block->name);
  const BlockNode* other = other_writer(func, *block, buffer.get());
  if (other && !stores_always(*block, buffer.get()))
    return refused(ErrorCode::E211, func, block,
                   "block {} may leave elements of {} as block {} made them, and the copy would not", block->name,
                   buffer->name, other->name);
  const StmtNode* anchor = anchor_of(*scope, block, consumers_of(*scope, buffer.get()));
  const Stmt top = path_to(scope->body, anchor).back();
  const Buffer cache = cache_buffer(func, buffer, args.scope);
  const std::string name = unique_block_name(func, buffer->name + "_" + args.scope);
  const Stmt copy = copy_back(func, name, *block, top, cache, buffer, other != nullptr);
  Func result = edit_scope(func, scope->name, {.anchor = anchor, .after = copy, .allocate = {cache}});
  result = replace_owned(std::move(result), block, with_buffer(*block, buffer, cache));
  return Applied{result, {name}};
}

}  // namespace

extern constinit const PrimitiveDef cache_write_def =
    define_primitive<CacheWriteArgs, apply_cache_write>("cache_write", 2);

Result<BlockRef> cache_write(Schedule& s, const CacheWriteArgs& args) {
  return run<BlockRef>(s, cache_write_def, args);
}

}  // namespace fettle
