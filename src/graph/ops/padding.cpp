#include "graph/ops/padding.h"

#include <algorithm>

namespace fettle::ops {

using passes::Lowering;

Value* dilated(Lowering& g, Value* x, int64_t axis, int64_t factor, Value* value) {
  if (factor == 1) return x;
  const Shape shape = x->shape();
  const Dim& extent = shape[static_cast<size_t>(axis)];
  x = g("Pad", {g.unsqueeze(x, {axis + 1}), nullptr, value},
        {{{"pads", std::vector<int64_t>{0, factor - 1}}, {"axes", std::vector<int64_t>{axis + 1}}}});
  x = g.reshape(x, with_replaced(shape, axis, extent * factor));
  return g.slice(x, axis, 0, max(extent * factor - (factor - 1), 0));
}

Value* padded(Lowering& g, Value* x, const Shape& before, const Shape& after, Value* value) {
  const auto is_zero = [](const Dim& n) { return n == Dim(0); };
  if (std::ranges::all_of(before, is_zero) && std::ranges::all_of(after, is_zero)) return x;
  return g("Pad", {x, nullptr, value}, {{{"pads", dims_attr(joined(before, after))}}});
}

Value* reversed(Lowering& g, Value* x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  return g("Slice", {x},
           {{{"starts", std::vector<int64_t>(axes.size(), -1)},
             {"ends", std::vector<int64_t>(axes.size(), INT64_MIN)},
             {"axes", axes},
             {"steps", std::vector<int64_t>(axes.size(), -1)}}});
}

}  // namespace fettle::ops
