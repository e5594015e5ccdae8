#include "schedule/primitives/rolling_buffer.h"

#include <algorithm>

#include "ir/annotations.h"
#include "schedule/arguments.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/edit/inlining.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/placement.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// A dimension of the buffer along a loop.
struct Rolling {
  const ForNode* loop = nullptr;
  size_t dimension = 0;
  int64_t rows = 0;  // that one iteration needs: the circular buffer's
  int64_t step = 0;  // by which an iteration moves on
  Expr first;        // row of the iteration
  Expr inner;        // row within the iteration, from 0
};

// All that `reader` loads of the dimension in one iteration is among the rows from `first` on.
bool stays_within(const Func& func, const std::vector<const ForNode*>& outer, const BlockNode& reader,
                  const Buffer& buffer, const Rolling& rolling) {
  Footprint footprint(func, outer, loops_between(rolling.loop->body, &reader));
  const VarMap bindings = binding_map(reader);
  for (const Region& region : reader.reads) {
    if (!(region.buffer == buffer)) continue;
    const Range& read = region.ranges[rolling.dimension];
    const auto needed = footprint.of(substitute(read, bindings));
    if (!needed) return false;
    Analyzer& analyzer = footprint.analyzer();
    if (!analyzer.can_prove(le(rolling.first, needed->min)) ||
        !analyzer.can_prove(le(needed->min + needed->extent, rolling.first + rolling.rows)))
      return false;
  }
  return true;
}

// How the dimension moves along the loop; nothing where no rows overlap.
std::optional<Rolling> rolling_along(const Func& func, const std::vector<const ForNode*>& outer, const BlockNode& block,
                                     const Region& written, size_t dimension) {
  const ForNode* loop = outer.back();
  const int64_t* whole = as_int(written.buffer->shape[dimension]);
  if (!whole || !is_one(written.ranges[dimension].extent) || !is_zero(loop->min)) return {};
  Footprint footprint(func, outer, loops_between(loop->body, &block));
  const auto split = footprint.split(substitute(written.ranges[dimension].min, binding_map(block)));
  if (!split) return {};
  Rolling rolling{loop, dimension, split->extent, 0, nullptr, nullptr};
  for (const LinearTerm& term : split->outer.terms) {
    if (term.expr.get() == loop->var.get())
      rolling.step = term.coeff;
    else if (uses_var(term.expr, loop->var.get()))
      return {};
  }
  if (rolling.step < 1 || rolling.step >= rolling.rows || rolling.rows >= *whole) return {};
  Analyzer& analyzer = footprint.analyzer();
  rolling.first = analyzer.simplify(analyzer.to_expr(LinearForm(split->outer)) + split->inner_min);
  rolling.inner = analyzer.simplify(analyzer.to_expr(LinearForm(split->inner)) - split->inner_min);
  return rolling;
}

// Every access to the buffer, with the index of one dimension taken modulo its rows.
class Circular : public Mutator {
 public:
  Circular(Buffer from, Buffer to, size_t dimension, int64_t rows)
      : from_(std::move(from)), to_(std::move(to)), dimension_(dimension), rows_(rows) {}
  using Mutator::rewrite;

  Buffer rewrite(const Buffer& buffer) override { return buffer == from_ ? to_ : buffer; }
  Expr rewrite(const Expr& e) override {
    const auto* access = e ? e.as<LoadNode>() : nullptr;
    if (!access || !(access->buffer == from_)) return Mutator::rewrite(e);
    return load(to_, wrapped(access->indices), rewrite(access->mask));
  }
  Stmt rewrite(const Stmt& s) override {
    if (const auto* access = s ? s.as<StoreNode>() : nullptr; access && access->buffer == from_)
      return store(to_, wrapped(access->indices), rewrite(access->value), rewrite(access->mask));
    const Stmt result = Mutator::rewrite(s);
    const auto* block = result ? result.as<BlockNode>() : nullptr;
    if (!block || (!read_region(*block, to_.get()) && !write_region(*block, to_.get()))) return result;
    return with(*block, [&](BlockNode& b) {
      for (std::vector<Region>* regions : {&b.reads, &b.writes})
        for (Region& region : *regions)
          if (region.buffer == to_) wrap(region.ranges[dimension_]);
    });
  }

 private:
  std::vector<Expr> wrapped(std::vector<Expr> indices) {
    for (Expr& index : indices) index = rewrite(index);
    indices[dimension_] = floormod(indices[dimension_], Expr(rows_));
    return indices;
  }
  void wrap(Range& range) const {
    if (is_one(range.extent))
      range.min = floormod(range.min, Expr(rows_));
    else
      range = {int_imm(0), int_imm(rows_)};
  }

  Buffer from_, to_;
  size_t dimension_;
  int64_t rows_;
};

// The loops around the block that are around all readers, too, outermost first.
std::vector<const ForNode*> shared_loops(const Func& func, const BlockNode& block,
                                         const std::vector<const BlockNode*>& readers) {
  std::vector<const ForNode*> shared = loops_around(func, &block);
  std::erase_if(shared, [&](const ForNode* loop) {
    return std::ranges::any_of(readers, [&](const BlockNode* r) { return path_to(loop->body, r).empty(); });
  });
  return shared;
}

Func made_circular(const Func& func, const BlockNode& block, const Buffer& buffer, const Rolling& rolling) {
  const Region& written = *write_region(block, buffer.get());
  const Expr row = written.ranges[rolling.dimension].min;
  const Stmt guarded = with(block, [&](BlockNode& b) {
    for (IterVar& iter : b.iters)
      if (uses_var(row, iter.var.get())) iter.kind = IterKind::kOpaque;
    const Expr is_new = le(Expr(rolling.rows - rolling.step), rolling.inner);
    b.predicate = logical_and(logical_or(lt(rolling.loop->var, 1), is_new), b.predicate);
  });
  Func result = replace_in(func, &block, guarded);
  const ForNode* loop = find_loop(result->body, rolling.loop->var.get());
  result = replace_in(result, loop, with(*loop, [&](ForNode& f) {
                        const auto* names = f.annotations.find(kRollingBufferKey);
                        const auto* before = names ? std::get_if<std::string>(names) : nullptr;
                        f.annotations.set(kRollingBufferKey, (before ? *before + " " : std::string()) + buffer->name);
                      }));
  const Buffer circular = edited(buffer, [&](BufferNode& b) { b.shape[rolling.dimension] = int_imm(rolling.rows); });
  return Circular(buffer, circular, rolling.dimension, rolling.rows).rewrite(result);
}

Result<Applied> apply_rolling_buffer(const Schedule& s, const RollingBufferArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, write_buffer(block, args.write_index));
  if (is_param(func, buffer.get()))
    return refused(ErrorCode::E218, func, &block, "buffer {} is a parameter", buffer->name);
  if (buffer->layout || !buffer->strides.empty() || takes_address(func->body, buffer.get()))
    return refused(ErrorCode::E218, func, &block, "buffer {} is laid out by hand", buffer->name);
  const BlockNode* scope = enclosing_block(func, &block);
  FETTLE_TRY_VOID(check_complete(ErrorCode::E211, func, block, *scope, false));
  if (!predicate_only_bounds(func, block))
    return refused(ErrorCode::E211, func, &block, "the predicate of block {} does more than bound its iterators",
                   block.name);

  const std::vector<const BlockNode*> readers = consumers_of(*scope, buffer.get());
  const std::vector<const ForNode*> shared = shared_loops(func, block, readers);
  if (readers.empty() || shared.empty())
    return refused(ErrorCode::E207, func, &block, "no loop encloses block {} and those who read {}", block.name,
                   buffer->name);
  for (const ForNode* loop : shared)
    if (loop->loop_kind != ForKind::kSerial)
      return refused(ErrorCode::E201, func, loop, "loop {} is not serial", loop->var->name);

  const Region& written = *write_region(block, buffer.get());
  const BlockNode* outside = nullptr;  // a reader that needs other rows
  std::vector<const ForNode*> outer;
  for (const ForNode* loop : shared) {
    outer.push_back(loop);
    for (size_t d = 0; d < buffer->shape.size(); ++d) {
      const auto rolling = rolling_along(func, outer, block, written, d);
      if (!rolling) continue;
      const auto other = std::ranges::find_if(
          readers, [&](const BlockNode* r) { return !stays_within(func, outer, *r, buffer, *rolling); });
      if (other == readers.end()) return Applied{made_circular(func, block, buffer, *rolling), {}};
      outside = *other;
    }
  }
  if (outside)
    return refused(ErrorCode::E240, func, outside,
                   "block {} may need rows of {} that block {} does not make in the same iteration", outside->name,
                   buffer->name, block.name);
  return refused(ErrorCode::E240, func, &block, "iterations of no loop share rows of {} with the next", buffer->name);
}

}  // namespace

bool rolls(const ForNode& loop, const BufferNode& buffer) {
  const auto* value = loop.annotations.find(kRollingBufferKey);
  const auto* names = value ? std::get_if<std::string>(value) : nullptr;
  return names && (" " + *names + " ").find(" " + buffer.name + " ") != std::string::npos;
}

Result<> check_not_rolling(const Func& func, const BlockNode& block) {
  for (const ForNode* loop : loops_around(func, &block)) {
    if (!loop->annotations.find(kRollingBufferKey)) continue;
    for (const std::vector<Region>* regions : {&block.reads, &block.writes})
      for (const Region& region : *regions)
        if (rolls(*loop, *region.buffer))
          return refused(ErrorCode::E227, func, &block, "buffer {} rolls along loop {}, and block {} touches it",
                         region.buffer->name, loop->var->name, block.name);
  }
  return {};
}

extern constinit const PrimitiveDef rolling_buffer_def =
    define_primitive<RollingBufferArgs, apply_rolling_buffer>("rolling_buffer", 1);

Result<> rolling_buffer(Schedule& s, const RollingBufferArgs& args) { return run<void>(s, rolling_buffer_def, args); }

}  // namespace fettle
