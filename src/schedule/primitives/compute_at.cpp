#include "schedule/primitives/compute_at.h"

#include <algorithm>

#include "base/checks.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/placement.h"
#include "schedule/edit/staging.h"
#include "schedule/edit/steps.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// Loops over the threads of a block, around the loop, that have one copy of the buffer together.
std::vector<const ForNode*> take_sharing_loops(std::vector<const ForNode*>& outer, const Buffer& buffer,
                                               const Target* target) {
  const MemoryScope* scope = target ? target->find_scope(buffer->scope) : nullptr;
  std::vector<const ForNode*> sharing;
  if (!scope || scope->shared_by != "block") return sharing;
  std::erase_if(outer, [&](const ForNode* loop) {
    if (!is_block_thread_axis(loop->thread_axis)) return false;
    sharing.push_back(loop);
    return true;
  });
  return sharing;
}

// The hull of what `readers` need of `buffer` in one iteration of the loop (for all threads that share the buffer), a
// range for each dimension.
std::vector<Range> needed_of(const Func& func, const Move& move, const std::vector<const BlockNode*>& readers,
                             const Buffer& buffer, const Target* target) {
  std::vector<const ForNode*> outer = loops_around(func, move.loop);
  outer.push_back(move.loop);
  const std::vector<const ForNode*> sharing = take_sharing_loops(outer, buffer, target);
  std::vector<Range> hull;
  for (const BlockNode* reader : readers) {
    std::vector<const ForNode*> inner = loops_between(move.loop->body, reader);
    inner.insert(inner.begin(), sharing.begin(), sharing.end());
    Footprint footprint(func, outer, std::move(inner));
    add_reads(hull, *reader, buffer, footprint.analyzer(), [&](const Range& read, const Expr& whole) {
      return footprint.of(read).value_or(Range{int_imm(0), whole});
    });
  }
  return hull;
}

// What an iterator of the block must run over so that the written indices cover `needed`: where it is an index itself,
// the range of that dimension; where it is split over two (v // c, v % c), c times the range of the first.
Range range_of_iter(const IterVar& iter, const std::vector<Expr>& written, const std::vector<Range>& needed,
                    Analyzer& analyzer) {
  const Range whole{int_imm(0), iter.extent};
  const auto cut = [&](const Range& range) {
    const int64_t *extent = as_int(range.extent), *limit = as_int(iter.extent);
    return extent && limit && *extent >= *limit ? whole : clipped(range, iter.extent);
  };
  for (size_t d = 0; d < written.size(); ++d)
    if (written[d].get() == iter.var.get()) return cut(needed[d]);
  for (size_t d = 0; d < written.size(); ++d) {
    const auto* op = written[d].as<BinaryNode>();
    if (op && op->op == BinaryOp::kFloorDiv && op->a.get() == iter.var.get() && as_int(op->b))
      return cut({analyzer.simplify(needed[d].min * op->b), analyzer.simplify(needed[d].extent * op->b)});
  }
  return whole;
}

// Whether the producer comes behind both places of the block alike: behind the loop, and in no loop with it that is not
// around the block as it stands.
bool stays_behind(const Func& func, const Move& move, const BlockNode* producer) {
  if (move.is_inside(producer) || move.index(producer) < move.index(move.block)) return false;
  const auto around_block = loops_around(func, move.block), around_loop = loops_around(func, move.loop);
  const auto has = [](const std::vector<const ForNode*>& loops, const ForNode* loop) {
    return std::ranges::find(loops, loop) != loops.end();
  };
  return std::ranges::all_of(loops_around(func, producer),
                             [&](const ForNode* loop) { return !has(around_loop, loop) || has(around_block, loop); });
}

Result<Applied> apply_compute_at(const Schedule& s, const ComputeAtArgs& args) {
  FETTLE_TRY(const Move move, plan_move(s, args.block, args.loop));
  const Func& func = s.func();
  const BlockNode* first_reader = nullptr;
  for (const Region& write : move.block->writes) {
    if (is_param(func, write.buffer.get()))
      return refused(ErrorCode::E213, func, move.block, "{} is an output", write.buffer->name);
    for (const BlockNode* reader : consumers_of(*move.scope, write.buffer.get())) {
      if (!move.is_inside(reader) && checks("compute_at.consumers"))
        return refused(ErrorCode::E215, func, reader, "block {} reads {} outside of loop {}", reader->name,
                       write.buffer->name, move.loop->var->name);
      if (!first_reader || move.index(reader) < move.index(first_reader)) first_reader = reader;
    }
  }
  if (!first_reader)
    return refused(ErrorCode::E215, func, move.block, "nothing reads what block {} writes", move.block->name);
  const std::vector<Stmt> path = path_to(move.loop->body, first_reader);
  const Stmt part = path.size() > 1 && path[0].kind() == StmtKind::kSeq ? path[1] : path[0];
  const BlockNode* first_in_part = blocks_under(part).front();
  for (const Region& read : move.block->reads)
    for (const BlockNode* producer : producers_of(*move.scope, read.buffer.get())) {
      if (move.index(producer) > move.index(move.block) && move.index(producer) < move.index(first_in_part) &&
          checks("compute_at.overwritten"))
        return refused(ErrorCode::E215, func, producer,
                       "block {} overwrites what block {} reads, and would run before it", producer->name,
                       move.block->name);
      if (producer != move.block && move.index(producer) >= move.index(first_in_part) &&
          !stays_behind(func, move, producer) && checks("compute_at.producers"))
        return refused(ErrorCode::E215, func, producer, "block {} writes what block {} reads, and would run after it",
                       producer->name, move.block->name);
    }

  std::vector<const ForNode*> outer = loops_around(func, move.loop);
  outer.push_back(move.loop);
  Analyzer analyzer = analyzer_over(func, outer);
  std::vector<Range> ranges(move.block->iters.size());
  for (const Region& write : move.block->writes) {
    const auto stores = stores_of(move.block->body, write.buffer.get());
    const bool one_place = std::ranges::all_of(
        stores, [&](const std::vector<Expr>& indices) { return structural_equal(indices, stores.front()); });
    if (!one_place || stores.empty())
      return refused(ErrorCode::E216, func, move.block, "block {} writes {} in several places", move.block->name,
                     write.buffer->name);
    const std::vector<Range> needed =
        needed_of(func, move, consumers_of(*move.scope, write.buffer.get()), write.buffer, s.target());
    for (size_t i = 0; i < ranges.size(); ++i) {
      const IterVar& iter = move.block->iters[i];
      Range range{int_imm(0), iter.extent};
      if (iter.kind == IterKind::kSpatial && !needed.empty())
        range = range_of_iter(iter, stores.front(), needed, analyzer);
      else if (iter.kind == IterKind::kSpatial)
        continue;  // a further output that nothing reads
      ranges[i] = ranges[i].min ? hull_of(ranges[i], range, iter.extent, analyzer) : range;
    }
  }
  // What nothing below reads is computed whole.
  for (size_t i = 0; i < ranges.size(); ++i)
    if (!ranges[i].min) ranges[i] = {int_imm(0), move.block->iters[i].extent};
  FETTLE_TRY_VOID(check_keeps_steps(s, move, ranges));
  LoopList loops;
  std::vector<IterPlace> places;
  for (const Range& range : ranges) places.push_back(place_over(range, args.preserve_unit_loops, loops));
  const Stmt nest = nest_around(*move.block, loops, places, nullptr, analyzer);
  return Applied{move_nest(func, move, nest, first_in_part), {}};
}

}  // namespace

extern constinit const PrimitiveDef compute_at_def = define_primitive<ComputeAtArgs, apply_compute_at>("compute_at", 1);

Result<> compute_at(Schedule& s, const ComputeAtArgs& args) { return run<void>(s, compute_at_def, args); }

}  // namespace fettle
