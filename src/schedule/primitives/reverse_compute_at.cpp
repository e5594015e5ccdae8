#include "schedule/primitives/reverse_compute_at.h"

#include <algorithm>

#include "analysis/sites.h"
#include "arith/affine_map.h"
#include "base/checks.h"
#include "schedule/dataflow/bound_names.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/placement.h"
#include "schedule/edit/steps.h"

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
  return refused(ErrorCode::E216, s.func(), move.block,
                 "block {} needs more of {} than one iteration of loop {} produces", move.block->name, buffer->name,
                 move.loop->var->name);
}

// The producers under the loop, in program order: the last one of each buffer. Solves how their points are read.
Result<std::vector<Source>> find_sources(const Schedule& s, const Move& move) {
  const Func& func = s.func();
  std::vector<Source> sources;
  for (const BlockNode* producer : move.order) {
    for (const Region& write : producer->writes) {
      if (producer == move.block || !read_region(*move.block, write.buffer.get())) continue;
      if (move.index(producer) > move.index(move.block) && move.index(producer) <= move.index(move.inside.back()) &&
          checks("reverse_compute_at.overwritten"))
        return refused(ErrorCode::E215, func, producer, "block {} overwrites what block {} reads, before it would",
                       producer->name, move.block->name);
      if (!move.is_inside(producer)) {
        if (move.index(producer) > move.index(move.inside.back()))
          return refused(ErrorCode::E215, func, producer, "block {} writes what block {} reads, after the loop",
                         producer->name, move.block->name);
        continue;
      }
      std::erase_if(sources, [&](const Source& other) { return other.buffer == write.buffer; });
      sources.push_back({producer, write.buffer, {}, {}, {}});
    }
  }
  if (sources.empty())
    return refused(ErrorCode::E215, func, move.loop, "loop {} produces nothing that block {} reads",
                   move.loop->var->name, move.block->name);
  const std::vector<const VarNode*> free = iter_vars(move.block->iters);
  for (Source& source : sources) {
    const std::vector<const ForNode*> around = loops_around(func, source.producer);
    const auto split = std::ranges::find(around, move.loop) + 1;
    source.outer.assign(around.begin(), split);
    source.inner.assign(split, around.end());
    const auto stores = stores_of(source.producer->body, source.buffer.get());
    const auto is_named_inside = [&](const Expr& index) { return uses_bound_in(source.producer->body, index); };
    if (stores.empty() || !blocks_under(source.producer->body).empty() ||
        std::ranges::any_of(stores.front(), is_named_inside))
      return not_covered(s, move, source.buffer);
    const std::vector<Expr> written = canonical_indices(stores.front(), source.producer->iters);
    for (const Stmt& part : {move.block->init, move.block->body})
      for (const auto& read : loads_of(part, source.buffer.get()))
        if (!unify(canonical_indices(read, move.block->iters), written, free, source.solved))
          return not_covered(s, move, source.buffer);
  }
  return sources;
}

// The iterators of the block whose values follow from the producer's, each point of whose tile is then one of theirs:
// of two that follow from the same iterator, as of T[i, k] * T[j, k], only the first does, unless both together make
// it up (i // 4 and i % 4).
std::vector<const IterVar*> determined(const Move& move, const Source& lead) {
  std::vector<const IterVar*> found;
  std::vector<Expr> values, extents;
  std::vector<VarDomain> domains;
  for (const IterVar& iter : lead.producer->iters) domains.push_back({iter.var, {0, iter.extent}});
  Analyzer analyzer;
  for (const IterVar& iter : lead.producer->iters) analyzer.bind(iter.var, int_imm(0), iter.extent);
  for (const IterVar& iter : move.block->iters) {
    const auto solved = lead.solved.find(iter.var.get());
    if (solved == lead.solved.end()) continue;
    const bool shares = std::ranges::any_of(collect_vars(solved->second), [&](const Var& var) {
      return std::ranges::any_of(values, [&](const Expr& value) { return uses_var(value, var.get()); });
    });
    values.push_back(solved->second);
    extents.push_back(iter.extent);
    if (shares && !detect_affine_map(values, extents, domains, nullptr, analyzer).covers) {
      values.pop_back();
      extents.pop_back();
      continue;
    }
    found.push_back(&iter);
  }
  return found;
}

// Whether the producer's loops take its spatial iterators through all of their domains. One that is alone in writing a
// buffer has written all that anyone reads of it; of several (what loop_partition left, say) each may have its part.
bool reaches_all(const Func& func, const BlockNode& producer) {
  const auto [bindings, extents] = iter_lists(producer, true);
  std::vector<VarDomain> domains;
  for (const ForNode* loop : loops_around(func, &producer)) domains.push_back({loop->var, {loop->min, loop->extent}});
  Analyzer analyzer;
  analyzer.bind_params(func);
  return detect_affine_map(bindings, extents, domains, producer.predicate, analyzer).covers;
}

// True if `value`, over all instances of the producer, takes every value in [0, extent).
bool covers(const BlockNode& producer, const Expr& value, const Expr& extent) {
  if (const int64_t* limit = value.as<VarNode>() ? as_int(extent) : nullptr)
    for (const IterVar& iter : producer.iters)
      if (const int64_t* count = iter.var.get() == value.get() ? as_int(iter.extent) : nullptr) return *limit <= *count;
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
// `known`: of the iterators, what it has written where that has been worked out.
Result<> check_source(const Schedule& s, const Move& move, const Source& source, const std::vector<Range>& needed,
                      const std::vector<std::optional<Range>>& known) {
  Footprint footprint(s.func(), source.outer, source.inner);
  if (producers_of(*move.scope, source.buffer.get()).size() > 1 && !reaches_all(s.func(), *source.producer) &&
      checks("reverse_compute_at.parts"))
    return not_covered(s, move, source.buffer);
  const VarMap bindings = binding_map(*source.producer);
  for (size_t i = 0; i < move.block->iters.size(); ++i) {
    const IterVar& iter = move.block->iters[i];
    const auto found = source.solved.find(iter.var.get());
    if (found == source.solved.end()) continue;
    if (!covers(*source.producer, found->second, iter.extent)) return not_covered(s, move, source.buffer);
    const auto written = known[i] ? known[i] : footprint.of(substitute(found->second, bindings));
    if (!written || !covers(*written, needed[i], footprint.analyzer())) return not_covered(s, move, source.buffer);
  }
  return {};
}

// Whether the block runs in each iteration of the loop already.
bool is_below(const BlockNode* block, const ForNode* loop) {
  const std::vector<const BlockNode*> below = blocks_under(loop->body);
  return std::ranges::find(below, block) != below.end();
}

Result<Applied> apply_reverse_compute_at(const Schedule& s, const ReverseComputeAtArgs& args) {
  FETTLE_TRY(const Move move, plan_move(s, args.block, args.loop));
  const Func& func = s.func();
  FETTLE_TRY(const std::vector<Source> sources, find_sources(s, move));

  // The last producer's tile leads; what the others have written must include what it asks for.
  const Source& lead = sources.back();
  const IterationTile tile = tile_of(func, *lead.producer, lead.outer, lead.inner);
  VarMap tile_values;
  for (size_t i = 0; i < tile.iters.size(); ++i) tile_values[tile.iters[i]->var.get()] = tile.bindings[i];

  Footprint footprint(func, lead.outer, lead.inner);
  const VarMap lead_bindings = binding_map(*lead.producer);
  std::vector<IterPlace> places(move.block->iters.size());
  std::vector<Range> needed;
  std::vector<std::optional<Range>> of_lead(places.size());
  LoopList loops;
  // Iterators that the tile does not determine get a loop of their own: in the order of the iterators where each has
  // one, else those of extent 1 around the tile's loops, and the others inside.
  const auto place_own = [&](bool unit) {
    for (size_t i = 0; i < places.size(); ++i)
      if (!places[i].binding && is_one(needed[i].extent) == unit)
        places[i] = place_over(needed[i], args.preserve_unit_loops, loops);
  };
  const std::vector<const IterVar*> follow = determined(move, lead);
  for (size_t i = 0; i < places.size(); ++i) {
    const IterVar& iter = move.block->iters[i];
    const auto found = lead.solved.find(iter.var.get());
    needed.push_back({int_imm(0), iter.extent});
    if (std::ranges::find(follow, &iter) == follow.end() || iter.kind != IterKind::kSpatial) {
      if (tile.rectangular) places[i] = place_over(needed[i], args.preserve_unit_loops, loops);
      continue;
    }
    const auto range = footprint.of(substitute(found->second, lead_bindings));
    if (!range) return not_covered(s, move, lead.buffer);
    // Of a scan the tile knows no iterator.
    for (const IterVar& of_lead : lead.producer->iters)
      if (uses_var(found->second, of_lead.var.get()) && !tile_values.contains(of_lead.var.get()))
        return not_covered(s, move, lead.buffer);
    needed[i] = *range;
    of_lead[i] = *range;
    places[i].binding = substitute(found->second, tile_values);
    for (size_t k = 0; k < tile.iters.size(); ++k) {
      if (tile.iters[k]->var.get() != found->second.get()) continue;
      places[i].in_bounds = structural_equal(tile.iters[k]->extent, iter.extent);
    }
    // The tile's loops that the binding uses: one, or several where the producer's iterators make up one of the
    // block's.
    for (size_t k = 0; k < tile.iters.size() && tile.rectangular; ++k) {
      const bool emitted = std::ranges::any_of(loops, [&](const auto& l) { return l.first == tile.loops[k].first; });
      if (!emitted && uses_var(found->second, tile.iters[k]->var.get())) loops.push_back(tile.loops[k]);
    }
  }
  if (!tile.rectangular) {
    place_own(true);
    loops.insert(loops.end(), tile.loops.begin(), tile.loops.end());
    place_own(false);
  }
  FETTLE_TRY_VOID(check_keeps_steps(s, move, needed));
  const std::vector<std::optional<Range>> unknown(places.size());
  for (const Source& source : sources)
    if (checks("reverse_compute_at.covered"))
      FETTLE_TRY_VOID(check_source(s, move, source, needed, &source == &lead ? of_lead : unknown));
  Expr predicate = tile.predicate;
  std::vector<const ForNode*> carried;
  for (const Source& source : sources)
    for (const ForNode* loop : carried_loops(*source.producer, source.outer))
      if (std::ranges::find(carried, loop) == carried.end() && !is_below(move.block, loop)) {
        // A loop that moves through the output, too, has no step that is the last for all of it.
        if (moves_with(*source.producer, IterKind::kSpatial, *loop) && checks("reverse_compute_at.carried"))
          return not_covered(s, move, source.buffer);
        carried.push_back(loop);
      }
  Analyzer analyzer = analyzer_over(func, lead.outer);
  for (const ForNode* loop : carried)
    predicate = logical_and(predicate, analyzer.simplify(eq(loop->var, loop->min + loop->extent - 1)));

  // Loops of the tile that determine nothing here (of extent 1, as a rule) go, and so do unit loops that are not
  // wanted.
  VarMap units;
  LoopList left;
  for (const auto& [var, range] : tile.loops) {
    const bool emitted = std::ranges::any_of(loops, [&](const auto& l) { return l.first == var; });
    if (is_one(range.extent) && (!emitted || !args.preserve_unit_loops))
      units[var.get()] = range.min;
    else if (!emitted && predicate && uses_var(predicate, var.get()))
      left.push_back({var, range});
  }
  std::erase_if(loops, [&](const auto& loop) { return units.contains(loop.first.get()); });
  loops.insert(loops.begin(), left.begin(), left.end());
  for (IterPlace& place : places) place.binding = substitute(place.binding, units);
  if (predicate && !units.empty()) predicate = analyzer.simplify(substitute(predicate, units));
  const Stmt nest = nest_around(*move.block, loops, places, predicate, analyzer);
  return Applied{move_nest(func, move, nest, nullptr), {}};
}

}  // namespace

extern constinit const PrimitiveDef reverse_compute_at_def =
    define_primitive<ReverseComputeAtArgs, apply_reverse_compute_at>("reverse_compute_at", 2);

Result<> reverse_compute_at(Schedule& s, const ReverseComputeAtArgs& args) {
  return run<void>(s, reverse_compute_at_def, args);
}

}  // namespace fettle
