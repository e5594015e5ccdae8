// A sum of two terms the other way round.
//   for i: B[i] = A[i] + C[i]   →   for i: B[i] = C[i] + A[i]
// numbers: none. Returns B. Class: exact.

#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

Result<Reformulated> apply_swapped_terms(const Func& func, const BlockNode& block, std::span<const int64_t> numbers) {
  const StoreNode* write = single_store(block);
  const auto* sum = write ? write->value.as<BinaryNode>() : nullptr;
  if (!numbers.empty() || block.init || !sum || sum->op != BinaryOp::kAdd) return pattern_differs("it is no sum");
  const Stmt body = store(write->buffer, write->indices, sum->b + sum->a);
  const Stmt swapped = with(block, [&](BlockNode& b) { b.body = body; });
  return Reformulated{replace_in(func, &block, swapped), {block.name}};
}

}  // namespace

extern constinit const ReformulationDef swapped_terms_def = {"swapped_terms", Numerics::kExact, apply_swapped_terms};

}  // namespace fettle
