#include "schedule/reformulate/online_reduction.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/inlining.h"
#include "schedule/online_states.h"
#include "schedule/reduction_pattern.h"

namespace fettle {
namespace {

// 1 where both are equal (infinities, too), else exp(a - b).
Expr scale_of(const Expr& a, const Expr& b) { return select(eq(a, b), constant(1, a.dtype()), math("exp", {a - b})); }

Result<Reformulated> apply_online_reduction(const Func& func, const BlockNode& sum, std::span<const int64_t> numbers) {
  if (numbers.size() > 1) return pattern_differs("it takes no number, or the size of a block");
  if (numbers.size() == 1) return apply_online_states(func, sum, numbers[0]);
  FETTLE_TRY(const ReductionPattern s, match_reduction(func, sum));
  const BlockNode* scope = enclosing_block(func, &sum);
  if (s.combine->op != BinaryOp::kAdd) return pattern_differs("the block is no sum");
  FETTLE_TRY(const Exponential e, match_exponential(func, *scope, sum, s.term));
  const BlockNode *maximum = e.maximum, *stored = e.stored;
  const ReductionPattern& m = e.m;
  if (!(m.update->buffer->dtype == s.update->buffer->dtype))
    return pattern_differs("maximum and sum are of different types");
  FETTLE_TRY(const VarMap to_maximum, iters_in_maximum(func, e, sum, s.reduce));
  if (to_maximum.size() != sum.iters.size()) return pattern_differs("maximum and sum run over different iterators");
  Analyzer of_maximum = analyzer_in(func, *maximum);
  const Expr x = of_maximum.simplify(m.term);

  const std::vector<const BlockNode*> order = blocks_of(*scope);
  for (const Region& read : maximum->reads)
    for (const BlockNode* writer : producers_of(*scope, read.buffer.get()))
      if (writer != maximum && std::ranges::find(order, writer) > std::ranges::find(order, maximum))
        return pattern_differs(read.buffer->name + " is written again after the maximum");

  const Buffer& states_m = m.update->buffer;
  const Buffer& states_s = s.update->buffer;
  std::vector<Expr> at_s = s.update->indices;
  for (Expr& index : at_s) index = substitute(index, to_maximum);
  const Expr before = load(states_m, m.update->indices), sum_before = load(states_s, at_s);
  const Expr after = max(before, x);
  auto both = make_ref<BlockNode>(*maximum);
  both->init = seq({maximum->init, store(states_s, at_s, s.init->value)});
  both->body = seq({store(states_s, at_s, sum_before * scale_of(before, after) + scale_of(x, after)),
                    store(states_m, m.update->indices, after)});
  infer_regions(*both, of_maximum);

  Func result = replace_in(func, maximum, both);
  result = replace_in(result, find_block(result->body, sum.name), nullptr);
  // The stored exponentials go where only the sum read them.
  std::vector<const BufferNode*> release;
  const BufferNode* exponentials = stored ? single_store(*stored)->buffer.get() : nullptr;
  if (exponentials && consumers_of(*scope, exponentials).size() == 1) {
    result = replace_in(result, find_block(result->body, stored->name), nullptr);
    release.push_back(exponentials);
  }
  result = edit_scope(result, scope->name, {.release = release});
  const int64_t steps = *as_int(sum.iters[s.reduce].extent);
  return Reformulated{result, {maximum->name}, 4.0 * static_cast<double>(steps)};
}

}  // namespace

constinit const ReformulationDef online_reduction_def = {"online_reduction", Numerics::kApproximate,
                                                         apply_online_reduction};

}  // namespace fettle
