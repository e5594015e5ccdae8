// Reduces a power of two of terms by halves, so that all pairs of a step can be lanes of vectors.
//   for i: for k in 8: C[i] (+)= f(i, k)
//     →  for i: for p in 4: C_4[i, p] = f(i, p) + f(i, p + 4)
//        for i: for p in 2: C_2[i, p] = C_4[i, p] + C_4[i, p + 2]
//        for i:             C[i] = C_2[i, 0] + C_2[i, 1]
// numbers: none.
// Pattern: that of split_reduction, the extent of the reduction 2, 4, 8, …, at most 4096.
// Returns C_4, C_2, …, C. Class: reassociating. Costs a small buffer a step; saves the wait of each term for the one
// before.

#include <bit>

#include <fmt/format.h>

#include "ir/visit.h"
#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/reformulate/online_states.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

constexpr int64_t kMostTerms = 4096;

// f(vars of `spatial`, k)
using Term = std::function<Expr(const std::vector<Expr>& at, const Expr& k)>;

// True where `term` is itself the result of a reduction by ordered_max.
bool is_ordered_maximum(const Func& func, const BlockNode& scope, const Expr& term) {
  const auto* element = term.as<LoadNode>();
  const BlockNode* writer = element ? only_writer(func, scope, *element) : nullptr;
  if (!writer) return false;
  const auto combiner = match_combiner(func, *writer);
  return combiner && combiner->op == BinaryOp::kOrderedMax;
}

Result<Reformulated> apply_pairwise_reduction(const Func& func, const BlockNode& block,
                                              std::span<const int64_t> numbers) {
  if (!numbers.empty()) return pattern_differs("it takes no number");
  FETTLE_TRY(const ReductionPattern m, match_reduction(func, block));
  const int64_t total = *as_int(block.iters[m.reduce].extent);
  if (total < 2 || total > kMostTerms || !std::has_single_bit(static_cast<uint64_t>(total)))
    return pattern_differs("the terms are not a power of two");

  const BlockNode* scope = enclosing_block(func, &block);
  std::vector<Stmt> nests;
  std::vector<Buffer> buffers;
  std::vector<std::string> names;
  Term term = [&](const std::vector<Expr>& at, const Expr& k) {
    VarMap values = {{block.iters[m.reduce].var.get(), k}};
    size_t next = 0;
    for (size_t i = 0; i < block.iters.size(); ++i)
      if (i != m.reduce) values[block.iters[i].var.get()] = at[next++];
    return substitute(m.term, values);
  };
  // The first of a pair has to be a number for ordered_max.
  bool may_be_nan = m.combine->op == BinaryOp::kOrderedMax && !is_ordered_maximum(func, *scope, m.term);
  const auto pair_of = [&](Expr a, Expr b) {
    if (may_be_nan) a = accumulated(m.combine->op, m.init->value, std::move(a));
    return accumulated(m.combine->op, std::move(a), std::move(b));
  };
  for (int64_t half = total / 2; half >= 1; half /= 2) {
    auto step = make_ref<BlockNode>(block);
    step->init = Stmt();
    step->iters.clear();
    std::vector<Expr> at, shape;
    VarMap to_fresh;
    for (size_t i = 0; i < block.iters.size(); ++i) {
      if (i == m.reduce) continue;
      IterVar iter = block.iters[i];
      iter.var = make_var(iter.var->name, iter.var->dtype);
      to_fresh[block.iters[i].var.get()] = iter.var;
      at.push_back(iter.var);
      shape.push_back(iter.extent);
      step->iters.push_back(std::move(iter));
    }
    Expr value;
    if (half > 1) {
      const Var pair = make_var("vp");
      value = pair_of(term(at, pair), term(at, Expr(pair) + half));
      step->iters.push_back({pair, half, IterKind::kSpatial, nullptr});
      at.push_back(pair);
      shape.push_back(half);
      step->name = unique_block_name(func, fmt::format("{}_{}", block.name, half));
      const Buffer buffer = make_buffer(unique_buffer_name(func, fmt::format("{}_{}", m.update->buffer->name, half)),
                                        shape, m.update->buffer->dtype);
      buffers.push_back(buffer);
      step->body = store(buffer, at, value);
      term = [buffer](const std::vector<Expr>& outer, const Expr& k) {
        std::vector<Expr> indices = outer;
        indices.push_back(k);
        return load(buffer, indices);
      };
    } else {
      value = pair_of(term(at, 0), term(at, 1));
      std::vector<Expr> indices;
      for (const Expr& index : m.update->indices) indices.push_back(substitute(index, to_fresh));
      step->body = store(m.update->buffer, indices, value);
    }
    may_be_nan = false;
    step->reads.clear();
    step->writes.clear();
    Analyzer analyzer;
    for (const IterVar& iter : step->iters) analyzer.bind(iter.var, int_imm(0), iter.extent);
    infer_regions(*step, analyzer);
    names.push_back(step->name);
    nests.push_back(fresh_nest(step));
  }
  const Func result = edit_scope(
      func, scope->name, {.anchor = m.loops.front(), .replacement = seq(std::move(nests)), .allocate = buffers});
  return Reformulated{result, std::move(names), 0};
}

}  // namespace

extern constinit const ReformulationDef pairwise_reduction_def = {"pairwise_reduction", Numerics::kReassociating,
                                                                  apply_pairwise_reduction};

}  // namespace fettle
