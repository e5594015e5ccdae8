// Divides once where many elements are divided by the same number, and multiplies by the reciprocal.
//   for i: for j: B[i, j] = f(A[i, j] / t(i))
//     →  for i:        B_inverse[i] = 1 / t(i)
//        for i: for j: B[i, j] = f(A[i, j] * B_inverse[i])
// numbers: none.
// Pattern: a perfect nest whose loops are bound one to one to the block's iterators, all spatial, without a predicate;
// one store, whose value divides by something that depends on some of the iterators only. The outermost such division
// goes. Returns B_inverse and B. Class: approximate, 1.5 epsilon. Where 1 / t overflows or is denormal, the result is
// not useful.

#include <algorithm>

#include "ir/compare.h"
#include "ir/query.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

// The outermost division whose divisor does not depend on all of the iterators, and is not constant; or null.
const BinaryNode* find_division(const Expr& value, const std::vector<IterVar>& iters) {
  return find_node<BinaryNode>(value, [&](const BinaryNode& n) {
    if (n.op != BinaryOp::kDiv || !n.dtype.is_float() || collect_vars(n.b).empty()) return false;
    return std::ranges::any_of(iters, [&](const IterVar& iter) { return !uses_var(n.b, iter.var.get()); });
  });
}

class Replacer : public Mutator {
 public:
  Replacer(const BinaryNode* division, Expr inverse) : division_(division), inverse_(std::move(inverse)) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* n = e.as<BinaryNode>();
    // Every division by the same number.
    if (n && n->op == BinaryOp::kDiv && structural_equal(n->b, division_->b)) return rewrite(n->a) * inverse_;
    return Mutator::rewrite(e);
  }

 private:
  const BinaryNode* division_;
  Expr inverse_;
};

Result<Reformulated> apply_shared_reciprocal(const Func& func, const BlockNode& block,
                                             std::span<const int64_t> numbers) {
  if (!numbers.empty()) return pattern_differs("it takes no number");
  const std::vector<const ForNode*> loops = loops_around(func, &block);
  const StoreNode* write = single_store(block);
  if (!write || block.init || block.predicate || write->mask || loops.size() != block.iters.size())
    return pattern_differs("the block is not one store in a plain nest");
  for (size_t i = 0; i < loops.size(); ++i) {
    const bool own = std::ranges::any_of(block.iters, [&](const IterVar& iter) {
      return iter.kind == IterKind::kSpatial && iter.binding.get() == loops[i]->var.get();
    });
    const StmtNode* inside = i + 1 < loops.size() ? static_cast<const StmtNode*>(loops[i + 1]) : &block;
    if (!own || !is_zero(loops[i]->min) || loops[i]->body.get() != inside)
      return pattern_differs("the block is not one store in a plain nest");
  }
  const BinaryNode* division = find_division(write->value, block.iters);
  if (!division) return pattern_differs("there is no division by what several elements share");

  auto first = make_ref<BlockNode>(block);
  first->name = unique_block_name(func, block.name + "_inverse");
  first->iters.clear();
  std::vector<Expr> shape, at, from;
  VarMap to_fresh;
  for (const IterVar& iter : block.iters) {
    if (!uses_var(division->b, iter.var.get())) continue;
    IterVar fresh = iter;
    fresh.var = make_var(iter.var->name, iter.var->dtype);
    to_fresh[iter.var.get()] = fresh.var;
    shape.push_back(iter.extent);
    at.push_back(fresh.var);
    from.push_back(iter.var);
    first->iters.push_back(std::move(fresh));
  }
  if (shape.empty()) return pattern_differs("there is no division by what several elements share");
  const DType dtype = division->b.dtype();
  const Buffer inverse = make_buffer(unique_buffer_name(func, write->buffer->name + "_inverse"), shape, dtype);
  first->body = store(inverse, at, constant(1, dtype) / substitute(division->b, to_fresh));
  auto second = make_ref<BlockNode>(block);
  Replacer replacer(division, load(inverse, from));
  second->body = store(write->buffer, write->indices, replacer.rewrite(write->value));
  for (BlockNode* made : {first.get(), second.get()}) {
    made->reads.clear();
    made->writes.clear();
    Analyzer analyzer;
    for (const IterVar& iter : made->iters) analyzer.bind(iter.var, int_imm(0), iter.extent);
    infer_regions(*made, analyzer);
  }
  const std::vector<std::string> names = {first->name, second->name};
  const Stmt first_nest = fresh_nest(first);
  const Stmt second_nest =
      replace_stmt(Stmt(Ref<const StmtNode>(loops.front())), &block, Stmt(Ref<const StmtNode>(second.get())));
  const BlockNode* scope = enclosing_block(func, &block);
  const Stmt both = seq({first_nest, second_nest});
  const Func result =
      edit_scope(func, scope->name, {.anchor = loops.front(), .replacement = both, .allocate = {inverse}});
  return Reformulated{result, names, 1.5};
}

}  // namespace

extern constinit const ReformulationDef shared_reciprocal_def = {"shared_reciprocal", Numerics::kApproximate,
                                                                 apply_shared_reciprocal};

}  // namespace fettle
