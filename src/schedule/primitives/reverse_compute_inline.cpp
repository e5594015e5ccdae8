#include "schedule/primitives/reverse_compute_inline.h"

#include <algorithm>

#include "analysis/block_checks.h"
#include "base/checks.h"
#include "ir/annotations.h"
#include "ir/path.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/dataflow/repetition.h"
#include "schedule/edit/inlining.h"
#include "schedule/edit/placement.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// The last block before `block` that writes something it reads.
const BlockNode* last_producer(const std::vector<const BlockNode*>& order, const BlockNode* block) {
  const BlockNode* last = nullptr;
  for (const BlockNode* other : order) {
    if (other == block) break;
    for (const Region& write : other->writes)
      if (read_region(*block, write.buffer.get()) && !other->annotations.find(kClearsPadLanesKey)) last = other;
  }
  return last;
}

// Whether `reader` takes up what an earlier step of the accumulating `producer` has left: it comes first in the same
// steps, and reads what the producer then stores again.
bool takes_up(const Func& func, const BlockNode& scope, const BlockNode& reader, const BlockNode& producer,
              const BufferNode* between) {
  const std::vector<const BlockNode*> order = blocks_of(scope);
  if (std::ranges::find(order, &reader) > std::ranges::find(order, &producer)) return false;
  const std::vector<const ForNode*> around_reader = loops_around(func, &reader);
  const std::vector<const ForNode*> around = loops_around(func, &producer);
  const auto apart = std::ranges::mismatch(around, around_reader).in1;
  const std::vector<const ForNode*> shared(around.begin(), apart);
  for (const ForNode* step : carried_loops(producer, around))
    if (std::ranges::find(shared, step) == shared.end()) return false;
  const auto touched = [&](const BlockNode& block, const Region& region, const std::vector<const ForNode*>& loops) {
    Footprint footprint(func, shared, {loops.begin() + static_cast<std::ptrdiff_t>(shared.size()), loops.end()});
    const VarMap bindings = binding_map(block);
    std::vector<Range> ranges;
    for (const Range& range : region.ranges) {
      const auto found = footprint.of(substitute(range, bindings));
      if (!found) return std::vector<Range>();
      ranges.push_back(*found);
    }
    return ranges;
  };
  const std::vector<Range> read = touched(reader, *read_region(reader, between), around_reader);
  const std::vector<Range> stored = touched(producer, *write_region(producer, between), around);
  return !read.empty() &&
         std::ranges::equal(read, stored, [](const Range& a, const Range& b) { return structural_equal(a, b); });
}

Result<Applied> apply_reverse_compute_inline(const Schedule& s, const ReverseComputeInlineArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto* block = stmt.as<BlockNode>();
  const BlockNode* scope = enclosing_block(func, block);
  FETTLE_TRY_VOID(check_inlinable(func, block, scope));
  const BlockNode* producer = last_producer(blocks_of(*scope), block);
  if (!producer) return refused(ErrorCode::E211, func, block, "block {} has no producer", block->name);
  if (const std::string why = why_not_inlinable(func, *producer, *scope, true); !why.empty())
    return refused(ErrorCode::E211, func, producer, "block {}: {}", producer->name, why);
  const StoreNode* target = single_store(*producer);
  const StoreNode* output = single_store(*block);
  const BufferNode* between = target->buffer.get();
  if (is_param(func, between)) return refused(ErrorCode::E213, func, producer, "{} is an output", between->name);
  if (takes_address(scope->body, between)) return not_inlinable(func, block, "an address of its input is taken");
  FETTLE_TRY_VOID(check_others_ready(func, *scope, block, producer));

  const std::vector<const ForNode*> around = loops_around(func, block);
  if (const ForNode* loop = must_stay_below(func, *block, producer); loop && checks("must_stay_below"))
    return not_inlinable(func, block,
                         fmt::format("it reads what each iteration of loop {} makes anew", loop->var->name));

  // How the block's iterators follow from the producer's.
  Analyzer analyzer = analyzer_in(func, *producer);
  const auto reads = loads_of(block->body, between);
  if (reads.empty()) return not_inlinable(func, block, fmt::format("it does not load from {}", between->name));
  for (const auto& read : reads)
    if (!structural_equal(read, reads.front()))
      return not_inlinable(func, block, fmt::format("it reads several elements of {}", between->name));
  const auto solved = solve(block->iters, reads.front(), target->indices, analyzer);
  if (!solved || (!one_to_one(*block, *producer, *solved, analyzer) && checks("reverse_compute_inline.all")))
    return not_inlinable(func, block, fmt::format("it is not elementwise on all of {}", between->name));

  for (const ForNode* loop : carried_loops(*producer, loops_around(func, producer)))
    if (std::ranges::find(around, loop) != around.end())
      return not_inlinable(func, block, fmt::format("it runs in each step of loop {}", loop->var->name));
  Expr last;
  for (const IterVar& iter : producer->iters)
    if (iter.kind == IterKind::kScan) last = logical_and(last, eq(iter.var, iter.extent - 1));
  if (last && output->buffer->dtype != target->buffer->dtype)
    return not_inlinable(
        func, block,
        fmt::format("{} cannot take over from {}: their types differ", output->buffer->name, between->name));

  const auto element = [&](const VarMap& at, Analyzer& known) {
    std::vector<Expr> indices = output->indices;
    for (Expr& index : indices) index = known.simplify(substitute(index, at));
    return indices;
  };
  Expr value = replace_loads(output->value, between, [&](const std::vector<Expr>&) { return target->value; });
  value = analyzer.simplify(substitute(value, *solved));
  if (!is_true(last)) value = select(last, value, target->value);
  auto fresh = make_ref<BlockNode>(*producer);
  fresh->body = store(output->buffer, element(*solved, analyzer), value);
  infer_regions(*fresh, analyzer);
  Func result = replace_in(func, producer, fresh);

  // Further readers: only those that load the accumulator again.
  for (const BlockNode* reader : consumers_of(*scope, between)) {
    if (reader == block) continue;
    if ((is_true(last) || !takes_up(func, *scope, *reader, *producer, between)) &&
        checks("reverse_compute_inline.readers"))
      return not_inlinable(func, block, fmt::format("block {} reads {}, too", reader->name, between->name));
    if (!blocks_under(reader->body).empty())
      return not_inlinable(func, block,
                           fmt::format("block {}, which reads {}, has blocks inside", reader->name, between->name));
    Analyzer known = analyzer_in(func, *reader);
    bool solved_all = true;
    auto moved = make_ref<BlockNode>(*reader);
    moved->body = replace_loads(reader->body, between, [&](const std::vector<Expr>& indices) -> Expr {
      const auto at = solve(block->iters, reads.front(), indices, known);
      if (!at) {
        solved_all = false;
        return load(target->buffer, indices);
      }
      return load(output->buffer, element(*at, known));
    });
    if (!solved_all)
      return not_inlinable(func, block, fmt::format("block {} reads {} in another way", reader->name, between->name));
    infer_regions(*moved, known);
    result = replace_owned(std::move(result), reader, moved);
  }
  const BlockNode* now = find_block(result->body, block->name);
  result = replace_owned(std::move(result), now, nullptr);
  return Applied{edit_scope(result, scope->name, {.release = {between}}), {}};
}

}  // namespace

extern constinit const PrimitiveDef reverse_compute_inline_def =
    define_primitive<ReverseComputeInlineArgs, apply_reverse_compute_inline>("reverse_compute_inline", 1);

Result<> reverse_compute_inline(Schedule& s, const ReverseComputeInlineArgs& args) {
  return run<void>(s, reverse_compute_inline_def, args);
}

}  // namespace fettle
