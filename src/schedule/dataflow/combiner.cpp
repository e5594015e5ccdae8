#include "schedule/dataflow/combiner.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ir/compare.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

bool is_load_of(const Expr& e, const StoreNode& store) {
  const auto* load = e.as<LoadNode>();
  return load && load->buffer == store.buffer && !load->mask && structural_equal(load->indices, store.indices);
}

bool is_neutral(const Expr& e, BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return is_zero(e) || (e.as<FloatImmNode>() && e.as<FloatImmNode>()->value == 0);
    case BinaryOp::kMul:
      return is_one(e) || (e.as<FloatImmNode>() && e.as<FloatImmNode>()->value == 1);
    case BinaryOp::kMin:
      return structural_equal(e, highest(e.dtype()));
    case BinaryOp::kMax:
    case BinaryOp::kOrderedMax:
      return structural_equal(e, lowest(e.dtype()));
    default:
      return false;
  }
}

}  // namespace

Result<Combiner> match_combiner(const Func& func, const BlockNode& block) {
  const auto differs = [&](const std::string& why) {
    return refused(ErrorCode::E212, func, &block, "block {}: {}", block.name, why);
  };
  Combiner c;
  c.init = block.init ? block.init.as<StoreNode>() : nullptr;
  c.update = single_store(block);
  if (!c.init || !c.update || c.init->mask || c.update->mask || !(c.init->buffer == c.update->buffer) ||
      !structural_equal(c.init->indices, c.update->indices))
    return differs("its init and its body are not one store each to the same element");
  const auto* combine = c.update->value.as<BinaryNode>();
  if (!combine) return differs("its update is not C = C op f");
  if (is_load_of(combine->a, *c.update) && combine->op == BinaryOp::kOrderedMax)
    return differs("its update ordered_max(C, f) forgets C where f is NaN: ordered_max(f, C) does not");
  if (is_load_of(combine->a, *c.update))
    c.term = combine->b;
  else if (is_load_of(combine->b, *c.update))
    c.term = combine->a;
  else
    return differs("its update is not C = C op f");
  c.op = combine->op;
  if (!loads_of(evaluate(c.term), c.update->buffer.get()).empty())
    return differs("its term reads " + c.update->buffer->name);
  if (!is_neutral(c.init->value, c.op)) return differs("its init is not the neutral element of its operation");
  return c;
}

}  // namespace fettle
