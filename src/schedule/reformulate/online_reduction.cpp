// The maximum and the sum of exponentials of a softmax in one pass, by a reduction with two states.
// (Milakov, Gimelshein: Online normalizer calculation for softmax, 2018, section 3.)
//   for i: for k: M[i] max= x(i, k)
//   for i: for k: E[i, k] = exp(x(i, k) - M[i])
//   for i: for k: S[i] += E[i, k]                         (or the exponential itself)
//     →  for i: for k:  init M[i] = -inf, S[i] = 0
//                       S[i] = S[i] * exp(M[i] - max(M[i], x)) + exp(x - max(M[i], x));  M[i] = max(M[i], x)
//        for i: for k: E[i, k] = …                        where others read E, too
// Where an exponent's two sides are equal the factor is 1, also for -inf, which masks leave.
// numbers: none. The block is the sum.
// Pattern: maximum and sum are reductions in plain nests over the same iterators, in whichever order the loops are;
// both use the same x, and nothing else writes or reads between them.
// Returns the block of both states, which has the maximum's name. Class: approximate; each of K steps rounds the sum a
// few times more, so that the error is at most 4K units. Costs a second exponential for each element, saves a pass.
//
// With one number, the size of a block of k, and applied to what softmax weighs, that becomes a third state, of more
// dimensions than the other two: attention in one pass, whose weights never are in memory as a whole.
// (Rabe, Staats: Self-attention does not need O(n²) memory, 2021, section 2; Dao et al.: FlashAttention, 2022,
// section 3.1.)
//   M, E, S as above
//   for i: for k: P[i, k] = E[i, k] / S[i]               (or the quotient itself)
//   for i: for d: for k: O[i, d] += P[i, k] * v(i, d, k)
//     →  for i, b, k:  M_block[b, i] max= x(i, b*n + k)
//        for b, i:     M_runs[b, i] = max(M_run[i], M_block[b, i]), but 0 where that is -inf
//                      M_scale[b, i] = exp(M_run[i] - M_runs[b, i])                    (b a scan; M_run begins as -inf)
//                      M_run[i] = max(M_run[i], M_block[b, i])
//        for b, i, k:  E_block[b, i, k] = exp(x(i, b*n + k) - M_runs[b, i])
//        for b, i, k:  S_block[b, i] += E_block[b, i, k]
//        for b, i:     S_run[i] = S_run[i] * M_scale[b, i] + S_block[b, i]              (a scan; the first begins at 0)
//        for b, i, d, k: O_block[b, i, d] += E_block[b, i, k] * v(i, d, b*n + k)
//        for b, i, d:  O_run[i, d] = O_run[i, d] * M_scale[b, i] + O_block[b, i, d]     (likewise)
//        for i, d:     O[i, d] = O_run[i, d] / S_run[i]
// The states are corrected once a block. `merge` all but M_block at b: what a block of k needs is then all that is
// ever stored. A row whose x are all -inf gives NaN, as before. Where P is select(isnan(q), 0, q) of the quotient q,
// such a row gives 0: all of it is NaN, or nothing. The number of k may be an integer parameter's; of none, O is 0.
// The bound is then that of the largest number.
// With a second number, which is 2, exponentials are powers of two, which machines have instructions for. M_run and
// M_runs are then log2(e) times what they are above. exp(y * ln(2)) is how 2^y is written:
//        for b, i:     M_run[i] = max(M_run[i], M_block[b, i] * log2(e))
//        for b, i, k:  E_block[b, i, k] = exp((x(i, b*n + k) * log2(e) - M_runs[b, i]) * ln(2))
// Where x is y times a positive constant, M_block is the highest y, and log2(e) is multiplied by the constant.
// Where y is more than a sum, or that and -inf, M_run and M_runs are as above instead:
//        for b, i, k:  E_block[b, i, k] = exp((x(i, b*n + k) - M_runs[b, i]) * log2(e) * ln(2))
// Then masks that add the lowest finite number don't overflow, and a row of which all is masked is the mean.
// Pattern: what comes before the product is read by nothing else; v may depend on all of the product's iterators.
// Where all x of a block of k are -inf, what the block does leaves the states as they are (skip_hidden).
// Returns the eight blocks, the last with the product's name; the others are noted to be part of it. Class:
// approximate; K additions each in sum and product, and a few roundings for each of B blocks: at most 2K + 16 (B + 1)
// units.

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/inlining.h"
#include "schedule/reformulate/online_states.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

// 1 where both are equal (infinities, too), else exp(a - b).
Expr scale_of(const Expr& a, const Expr& b) { return select(eq(a, b), constant(1, a.dtype()), math("exp", {a - b})); }

Result<Reformulated> apply_online_reduction(const Func& func, const BlockNode& sum, std::span<const int64_t> numbers) {
  if (numbers.size() > 2 || (numbers.size() == 2 && numbers[1] != 2))
    return pattern_differs("it takes no number, the size of a block, or that and 2");
  if (!numbers.empty()) return apply_online_states(func, sum, numbers[0], numbers.size() == 2);
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
  const Expr after = accumulated(m.combine->op, before, x);
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

extern constinit const ReformulationDef online_reduction_def = {"online_reduction", Numerics::kApproximate,
                                                                apply_online_reduction};

}  // namespace fettle
