// Reduces in parts, and then the parts, so that the parts can run in parallel or in vector lanes.
//   for i: for k in K: C[i] (+)= f(i, k)
//     →  for p in P: for i: for r in R: C_partial[p, i] (+)= f(i, p*R + r)   where p*R + r < K
//        for i: for p in P:             C[i] (+)= C_partial[p, i]
// numbers: [P], at least 1; R = ceil(K / P), and P is lowered to ceil(K / R), so that no part is empty.
//          [P, 1]: the parts are interleaved, so that they can be the lanes of vectors; P <= K stays as it is:
//     →  for i: for p in P: for r in R: C_partial[i, p] (+)= select(r*P + p < K, f(i, r*P + p), neutral element)
//        for i: for p in P:             C[i] (+)= C_partial[i, p]
// Of several reduce iterators the last one is k; the others stay where they are, in the parts:
//   for i: for j: for k: C[i] (+)= f(i, j, k)   →   for i: for p: for j: for r: C_partial[i, p] (+)= …
// Pattern: a perfect nest whose loops are bound one to one to the block's iterators, without a predicate; the
// reduction's extent constant, but for interleaved parts; an init, and an update C[…] = C[…] op f with op one of + *
// min max ordered_max, whose init is op's neutral element.
// Returns C_partial and C. Class: reassociating. Costs a buffer of P times the output.

#include "ir/query.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

Result<Reformulated> apply_split_reduction(const Func& func, const BlockNode& block, std::span<const int64_t> numbers) {
  const bool interleaved = numbers.size() == 2 && numbers[1] == 1;
  if ((numbers.size() != 1 && !interleaved) || numbers[0] < 1)
    return pattern_differs("it takes the number of parts, at least 1, and perhaps 1 for interleaved ones");
  FETTLE_TRY(const ReductionPattern m, match_reduction(func, block, true, true));
  const IterVar& reduce = block.iters[m.reduce];
  const Expr& total = reduce.extent;
  const int64_t* known = as_int(total);
  if (!known && !interleaved) return pattern_differs("the reduction's extent is not a constant");
  if (known && interleaved && numbers[0] > *known) return pattern_differs("there are more parts than terms");
  Analyzer params;
  params.bind_params(func);
  const Expr size = params.simplify(floordiv(total + (numbers[0] - 1), Expr(numbers[0])));  // of a part
  const int64_t parts = interleaved ? numbers[0] : -floordiv_int(-*known, *as_int(size));

  // The partial results have the spatial iterators as their indices, and the part: first, or last where interleaved.
  const Var part = make_var("vp"), within = make_var("vr"), over = make_var("vp");
  const Expr term_index = interleaved ? Expr(within) * parts + part : Expr(part) * size + within;
  VarMap values = {{reduce.var.get(), term_index}};
  std::vector<Expr> shape, at, from;
  std::vector<IterVar> spatial, reduced;  // in the parts
  for (size_t i = 0; i < block.iters.size(); ++i) {
    if (i == m.reduce) continue;
    IterVar iter = block.iters[i];
    iter.var = make_var(iter.var->name, iter.var->dtype);
    values[block.iters[i].var.get()] = iter.var;
    if (iter.kind == IterKind::kReduce) {
      reduced.push_back(std::move(iter));
      continue;
    }
    shape.push_back(iter.extent);
    at.push_back(iter.var);
    from.push_back(block.iters[i].var);
    spatial.push_back(std::move(iter));
  }
  const auto place = static_cast<std::ptrdiff_t>(interleaved ? spatial.size() : 0);
  shape.insert(shape.begin() + place, parts);
  at.insert(at.begin() + place, part);
  from.insert(from.begin() + place, over);
  spatial.insert(spatial.begin() + place, {part, parts, IterKind::kSpatial, nullptr});
  const Buffer partial =
      make_buffer(unique_buffer_name(func, m.update->buffer->name + "_partial"), shape, m.update->buffer->dtype);

  // C_partial[…] (+)= f(i, term_index)
  auto first = make_ref<BlockNode>(block);
  first->name = unique_block_name(func, block.name + "_partial");
  first->iters = std::move(spatial);
  first->iters.insert(first->iters.end(), reduced.begin(), reduced.end());
  first->iters.push_back({within, size, IterKind::kReduce, nullptr});
  std::erase_if(first->reads, [&](const Region& read) { return read.buffer == m.update->buffer; });
  first->reads = substitute(std::move(first->reads), values);
  first->writes = {point_region(partial, at)};
  first->init = store(partial, at, m.init->value);
  Expr term = substitute(m.term, values);
  const bool surplus = !params.can_prove_equal(size * parts, total);
  if (surplus && interleaved) term = select(call("likely", {lt(term_index, total)}, kBool), term, m.init->value);
  first->body = store(partial, at, accumulated(m.combine->op, load(partial, at), term));
  const auto first_ref = first.get();
  Stmt first_nest = fresh_nest(first);
  if (surplus && !interleaved)
    first_nest = replace_stmt(first_nest, first_ref, with(*first_ref, [&](BlockNode& b) {
                                b.predicate = lt(b.iters.front().binding * size + b.iters.back().binding, total);
                              }));

  // C[i] (+)= C_partial[…]
  auto second = make_ref<BlockNode>(block);
  second->iters[m.reduce] = {over, parts, IterKind::kReduce, nullptr};
  std::erase_if(second->iters,
                [&](const IterVar& iter) { return iter.kind == IterKind::kReduce && iter.var.get() != over.get(); });
  std::vector<size_t> order;
  size_t last = 0;
  for (size_t i = 0; i < second->iters.size(); ++i)
    if (second->iters[i].kind == IterKind::kReduce)
      last = i;
    else
      order.push_back(i);
  order.push_back(last);
  second->reads = {point_region(partial, from)};
  second->body = store(m.update->buffer, m.update->indices,
                       accumulated(m.combine->op, load(m.update->buffer, m.update->indices), load(partial, from)));
  const Stmt second_nest = fresh_nest(second, order);

  const BlockNode* scope = enclosing_block(func, &block);
  const Stmt both = seq({first_nest, second_nest});
  const Func result =
      edit_scope(func, scope->name, {.anchor = m.loops.front(), .replacement = both, .allocate = {partial}});
  return Reformulated{result, {first->name, second->name}, 0};
}

}  // namespace

extern constinit const ReformulationDef split_reduction_def = {"split_reduction", Numerics::kReassociating,
                                                               apply_split_reduction};

}  // namespace fettle
