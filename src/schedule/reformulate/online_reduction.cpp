#include "schedule/reformulate/online_reduction.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/inlining.h"
#include "schedule/reduction_pattern.h"

namespace fettle {
namespace {

// The only block that writes what `e` loads, or null: E of the pattern, or M.
const BlockNode* only_writer(const Func& func, const BlockNode& scope, const LoadNode& e) {
  if (is_param(func, e.buffer.get())) return nullptr;
  const std::vector<const BlockNode*> writers = producers_of(scope, e.buffer.get());
  return writers.size() == 1 ? writers.front() : nullptr;
}

// 1 where both are equal (infinities, too), else exp(a - b).
Expr scale_of(const Expr& a, const Expr& b) { return select(eq(a, b), constant(1, a.dtype()), math("exp", {a - b})); }

Result<Reformulated> apply_online_reduction(const Func& func, const BlockNode& sum, std::span<const int64_t> numbers) {
  if (!numbers.empty()) return pattern_differs("it takes no number");
  FETTLE_TRY(const ReductionPattern s, match_reduction(func, sum));
  const BlockNode* scope = enclosing_block(func, &sum);
  if (s.combine->op != BinaryOp::kAdd) return pattern_differs("the block is no sum");
  Analyzer analyzer = analyzer_in(func, sum);

  // exp(x - M[…]), written out in the sum or stored by a block of its own.
  Expr term = s.term;
  const BlockNode* stored = nullptr;
  if (const auto* element = term.as<LoadNode>()) {
    stored = only_writer(func, *scope, *element);
    if (!stored || !why_not_inlinable(func, *stored, *scope, false).empty())
      return pattern_differs("what is added is no exponential");
    const StoreNode& write = *single_store(*stored);
    const auto at = solve(stored->iters, write.indices, element->indices, analyzer);
    if (!at) return pattern_differs("what is added is stored in another order");
    term = substitute(write.value, *at);
  }
  const auto* power = term.as<CallNode>();
  const auto* difference = power && power->name == "exp" ? power->args[0].as<BinaryNode>() : nullptr;
  const auto* highest = difference && difference->op == BinaryOp::kSub ? difference->b.as<LoadNode>() : nullptr;
  const BlockNode* maximum = highest ? only_writer(func, *scope, *highest) : nullptr;
  if (!maximum) return pattern_differs("what is added is not exp(x - M)");
  FETTLE_TRY(const ReductionPattern m, match_reduction(func, *maximum));
  if (m.combine->op != BinaryOp::kMax) return pattern_differs("M is no maximum");
  if (!(m.update->buffer->dtype == s.update->buffer->dtype) || !m.update->buffer->dtype.is_float())
    return pattern_differs("maximum and sum are of different types");

  // The sum's iterators in terms of the maximum's: M's indices determine the spatial ones.
  VarMap to_maximum;
  if (maximum->iters.size() != sum.iters.size() || highest->indices.size() != m.update->indices.size())
    return pattern_differs("maximum and sum run over different iterators");
  to_maximum[sum.iters[s.reduce].var.get()] = maximum->iters[m.reduce].var;
  for (size_t d = 0; d < highest->indices.size(); ++d) {
    const auto* of_sum = highest->indices[d].as<VarNode>();
    const auto* of_maximum = m.update->indices[d].as<VarNode>();
    if (!of_sum || !of_maximum) {
      if (structural_equal(highest->indices[d], m.update->indices[d])) continue;  // a constant
      return pattern_differs("the indices of M are no iterators");
    }
    to_maximum[of_sum] = m.update->indices[d];
  }
  for (const IterVar& iter : sum.iters) {
    const auto at = to_maximum.find(iter.var.get());
    const auto same =
        at == to_maximum.end() ? maximum->iters.end() : std::ranges::find_if(maximum->iters, [&](const IterVar& other) {
          return other.var.get() == at->second.get() && other.kind == iter.kind &&
                 structural_equal(other.extent, iter.extent);
        });
    if (same == maximum->iters.end()) return pattern_differs("maximum and sum run over different iterators");
  }
  Analyzer of_maximum = analyzer_in(func, *maximum);
  const Expr x = of_maximum.simplify(substitute(difference->a, to_maximum));
  if (!structural_equal(x, of_maximum.simplify(m.term)))
    return pattern_differs("the exponent has another x than the maximum");

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
