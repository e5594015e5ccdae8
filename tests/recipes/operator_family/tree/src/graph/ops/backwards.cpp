// The same elements in another order.

#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

Types reverse_type(const Node& node) {
  FETTLE_TRY_VOID(positive_axis(node, node.attrs.get_int("axis", 0), rank_of(node, 0)));
  return same_type(node);
}

Tensors reverse(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, positive_axis(node, node.attrs.get_int("axis", 0), rank_of(node, 0)));
  const int64_t last = shape_of(node, 0)[static_cast<size_t>(axis)].value() - 1;
  return one(map_output(node, [&](Indices i) {
    i[static_cast<size_t>(axis)] = Expr(last) - i[static_cast<size_t>(axis)];
    return in[0](i);
  }));
}

constexpr OpDef defs[] = {
    {.name = "ReverseAxis",
     .fusion = FusionKind::kInjective,
     .infer = reverse_type,
     .compute = reverse,
     .work = ElementWork::kMoves},
};

}  // namespace

extern constinit const OpFamily backwards_ops{"backwards", defs};

}  // namespace fettle
