#include "schedule/primitives/reverse_compute_at.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/placement.h"

namespace fettle {
namespace {

// A producer under the loop, and what it has written there when the block runs.
struct Source {
  const BlockNode* producer;
  Buffer buffer;
  std::vector<const ForNode*> outer, inner;
  VarMap solved;  // iterators of the moved block, in iterators of the producer
};

tl::unexpected<Diagnostic> not_covered(const Schedule& s, const Move& move, const Buffer& buffer) {
  return fail_at(ErrorCode::E216, s.func(), move.block,
                 fmt::format("block {} needs more of {} than one iteration of loop {} produces", move.block->name,
                             buffer->name, move.loop->var->name),
                 {});
}

// The producers under the loop, in program order: the last one of each buffer. Solves how their points are read.
Result<std::vector<Source>> find_sources(const Schedule& s, const Move& move) {
  const Func& func = s.func();
  std::vector<Source> sources;
  for (const BlockNode* producer : move.order) {
    for (const Region& write : producer->writes) {
      if (producer == move.block || !read_region(*move.block, write.buffer.get())) continue;
      if (!move.is_inside(producer)) {
        if (move.index(producer) > move.index(move.inside.back()))
          return fail_at(ErrorCode::E215, func, producer,
                         fmt::format("block {} writes what block {} reads, after the loop", producer->name,
                                     move.block->name), {});
        continue;
      }
      std::erase_if(sources, [&](const Source& other) { return other.buffer == write.buffer; });
      sources.push_back({producer, write.buffer, {}, {}, {}});
    }
  }
  if (sources.empty())
    return fail_at(ErrorCode::E215, func, move.loop,
                   fmt::format("loop {} produces nothing that block {} reads", move.loop->var->name, move.block->name), {});
  const std::vector<const VarNode*> free = iter_vars(*move.block);
  for (Source& source : sources) {
    const std::vector<const ForNode*> around = loops_around(func, source.producer);
    const auto split = std::ranges::find(around, move.loop) + 1;
    source.outer.assign(around.begin(), split);
    source.inner.assign(split, around.end());
    const auto written = stores_of(source.producer->body, source.buffer.get());
    if (written.empty()) return not_covered(s, move, source.buffer);
    for (const Stmt& part : {move.block->init, move.block->body})
      for (const auto& read : loads_of(part, source.buffer.get()))
        if (!unify(read, written.front(), free, source.solved)) return not_covered(s, move, source.buffer);
  }
  return sources;
}

// True if `value`, over all instances of the producer, takes every value in [0, extent).
bool covers(const BlockNode& producer, const Expr& value, const Expr& extent) {
  Analyzer analyzer;
  for (const IterVar& iter : producer.iters) analyzer.bind(iter.var, int_imm(0), iter.extent);
  if (const auto* var = value.as<VarNode>())
    for (const IterVar& iter : producer.iters)
      if (iter.var.get() == var) return analyzer.can_prove(le(extent, iter.extent));
  const Interval bounds = analyzer.int_bounds(value);
  const int64_t* limit = as_int(extent);
  return limit && bounds.min <= 0 && bounds.max >= *limit - 1;
}

// Checks that what `source` has written includes what the block reads of it when its iterators run over `needed`.
Result<> check_source(const Schedule& s, const Move& move, const Source& source, const std::vector<Range>& needed) {
  Footprint footprint(s.func(), source.outer, source.inner);
  VarMap bindings;
  for (const IterVar& iter : source.producer->iters) bindings[iter.var.get()] = iter.binding;
  for (size_t i = 0; i < move.block->iters.size(); ++i) {
    const IterVar& iter = move.block->iters[i];
    const auto found = source.solved.find(iter.var.get());
    if (found == source.solved.end()) continue;
    if (!covers(*source.producer, found->second, iter.extent)) return not_covered(s, move, source.buffer);
    const auto written = footprint.of(substitute(found->second, bindings));
    Analyzer& analyzer = footprint.analyzer();
    if (!written || !analyzer.can_prove(le(written->min, needed[i].min)) ||
        !analyzer.can_prove(le(needed[i].min + needed[i].extent, written->min + written->extent)))
      return not_covered(s, move, source.buffer);
  }
  return {};
}

Result<Applied> apply_reverse_compute_at(const Schedule& s, const ReverseComputeAtArgs& args) {
  FETTLE_TRY(const Move move, plan_move(s, args.block, args.loop));
  const Func& func = s.func();
  for (const Region& write : move.block->writes)
    for (const BlockNode* consumer : consumers_of(*move.scope, write.buffer.get()))
      if (move.index(consumer) <= move.index(move.inside.back()))
        return fail_at(ErrorCode::E215, func, consumer,
                       fmt::format("block {} reads what block {} writes, before it would", consumer->name,
                                   move.block->name), {});
  FETTLE_TRY(const std::vector<Source> sources, find_sources(s, move));

  // The last producer's tile leads; what the others have written must include what it asks for.
  const Source& lead = sources.back();
  const Tile tile = tile_of(func, *lead.producer, lead.outer, lead.inner);
  VarMap tile_values;
  for (size_t i = 0; i < tile.iters.size(); ++i) tile_values[tile.iters[i]->var.get()] = tile.bindings[i];

  Footprint footprint(func, lead.outer, lead.inner);
  VarMap lead_bindings;
  for (const IterVar& iter : lead.producer->iters) lead_bindings[iter.var.get()] = iter.binding;
  std::vector<IterPlace> places;
  std::vector<Range> needed;
  std::vector<std::pair<Var, Range>> loops;
  for (const IterVar& iter : move.block->iters) {
    const Range all{int_imm(0), iter.extent};
    const auto found = lead.solved.find(iter.var.get());
    if (found == lead.solved.end() || iter.kind != IterKind::kSpatial) {
      places.push_back({nullptr, all});
      needed.push_back(all);
      continue;
    }
    places.push_back({substitute(found->second, tile_values), {}});
    const auto range = footprint.of(substitute(found->second, lead_bindings));
    if (!range) return not_covered(s, move, lead.buffer);
    needed.push_back(*range);
    // The loops in the order of the block's own iterators.
    if (!tile.rectangular) continue;
    for (size_t i = 0; i < tile.iters.size(); ++i)
      if (tile.iters[i]->var.get() == found->second.get()) loops.push_back(tile.loops[i]);
  }
  for (const Source& source : sources) FETTLE_TRY_VOID(check_source(s, move, source, needed));
  for (const auto& loop : tile.loops)
    if (std::ranges::none_of(loops, [&](const auto& l) { return l.first == loop.first; })) loops.push_back(loop);

  Expr predicate = tile.predicate;
  std::vector<const ForNode*> carried;
  for (const Source& source : sources)
    for (const ForNode* loop : carried_loops(*source.producer, source.outer))
      if (std::ranges::find(carried, loop) == carried.end()) carried.push_back(loop);
  Analyzer analyzer;
  analyzer.bind_params(func);
  bind_loops(analyzer, lead.outer);
  for (const ForNode* loop : carried)
    predicate = logical_and(predicate, analyzer.simplify(eq(loop->var, loop->min + loop->extent - 1)));

  if (!args.preserve_unit_loops) {
    VarMap units;
    std::erase_if(loops, [&](const auto& loop) {
      if (!is_one(loop.second.extent)) return false;
      units[loop.first.get()] = loop.second.min;
      return true;
    });
    for (IterPlace& place : places) place.binding = place.binding ? substitute(place.binding, units) : nullptr;
    predicate = predicate ? analyzer.simplify(substitute(predicate, units)) : nullptr;
  }
  const Stmt nest = nest_around(*move.block, std::move(loops), places, predicate, args.preserve_unit_loops, analyzer);
  return Applied{move_nest(func, move, nest, nullptr), {}};
}

}  // namespace

constinit const PrimitiveDef reverse_compute_at_def =
    define_primitive<ReverseComputeAtArgs, apply_reverse_compute_at>("reverse_compute_at", 1);

Result<> reverse_compute_at(Schedule& s, const ReverseComputeAtArgs& args) {
  FETTLE_TRY_VOID(s.step(reverse_compute_at_def, args));
  return {};
}

}  // namespace fettle
