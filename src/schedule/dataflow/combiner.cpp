#include "schedule/dataflow/combiner.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ir/compare.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

bool same_indices(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::ranges::equal(a, b, [](const Expr& x, const Expr& y) { return structural_equal(x, y); });
}

bool is_load_of(const Expr& e, const StoreNode& store) {
  const auto* load = e.as<LoadNode>();
  return load && load->buffer == store.buffer && !load->mask && same_indices(load->indices, store.indices);
}

// The least and the greatest value of an integer type of up to 64 bits.
int64_t least(DType t) {
  return t.code == TypeCode::kUInt ? 0 : t.bits >= 64 ? INT64_MIN : -(int64_t{1} << (t.bits - 1));
}
int64_t greatest(DType t) {
  const int bits = t.code == TypeCode::kUInt ? t.bits : t.bits - 1;
  return bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
}

bool is_neutral(const Expr& e, BinaryOp op) {
  const DType t = e.dtype();
  const auto* real = e.as<FloatImmNode>();
  const int64_t* integer = as_int(e);
  if (!real && !integer) return false;
  const double infinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case BinaryOp::kAdd:
      return real ? real->value == 0 : *integer == 0;
    case BinaryOp::kMul:
      return real ? real->value == 1 : *integer == 1;
    case BinaryOp::kMin:
      return real ? real->value == infinity : *integer == greatest(t);
    case BinaryOp::kMax:
      return real ? real->value == -infinity : *integer == least(t);
    default:
      return false;
  }
}

}  // namespace

Result<Combiner> match_combiner(const Func& func, const BlockNode& block) {
  const auto differs = [&](const std::string& why) {
    return fail_at(ErrorCode::E212, func, &block, "block " + block.name + ": " + why, {});
  };
  Combiner c;
  c.init = block.init ? block.init.as<StoreNode>() : nullptr;
  c.update = single_store(block);
  if (!c.init || !c.update || c.init->mask || c.update->mask || !(c.init->buffer == c.update->buffer) ||
      !same_indices(c.init->indices, c.update->indices))
    return differs("its init and its body are not one store each to the same element");
  const auto* combine = c.update->value.as<BinaryNode>();
  if (!combine) return differs("its update is not C = C op f");
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
