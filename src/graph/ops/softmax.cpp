// Softmax, its logarithm, and its limit.

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;

Types softmax_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  FETTLE_TRY_VOID(axis_of(node, -1));
  return same_type(node);
}

//   greatest = ordered_max(x), total = sum(exp(x - greatest)), y = exp(x - greatest) / total
// A row with NaN is NaN all over by its sum, so that the maximum need not be.
// over one axis, or with `coerced` (opsets before 13) over all from `axis` on.
template <bool Log>
Tensors softmax(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  FETTLE_TRY(const int64_t axis, axis_of(node, -1, x.rank()));
  const int64_t end = node.attrs.get_int("coerced", 0) ? x.rank() : axis + 1;
  // What is kept of a list with an element a dim, and the rest.
  const auto outer = [&](Indices list) {
    list.erase(list.begin() + axis, list.begin() + end);
    return list;
  };
  const std::vector<te::ReduceAxis> axes = reduce_axes({x.shape().begin() + axis, x.shape().begin() + end});
  const auto over_row = [&](Reduce reduce, const std::function<Expr(const Indices& at, const Indices& row)>& element,
                            const char* name) {
    return reduce_row(
        reduce, outer(x.shape()), axes,
        [&](const Indices& row, const Indices& inner) {
          Indices at = row;
          at.insert(at.begin() + axis, inner.begin(), inner.end());
          return element(at, row);
        },
        name);
  };
  const te::Tensor greatest =
      over_row(te::ordered_max, [&](const Indices& at, const Indices&) { return x(at); }, "softmax_max");
  const auto shifted_exp = [&](const Indices& at, const Indices& row) { return math("exp", {x(at) - greatest(row)}); };
  if (Log) {
    const te::Tensor total = over_row(te::sum, shifted_exp, "softmax_sum");
    return one(
        map_output(node, [&](const Indices& i) { return x(i) - greatest(outer(i)) - math("log", {total(outer(i))}); }));
  }
  // The exponentials are kept, so that each is computed once.
  const te::Tensor exps = te::compute(
      x.shape(), [&](const std::vector<Var>& i) { return shifted_exp(to_indices(i), outer(to_indices(i))); },
      "softmax_exp");
  const te::Tensor total =
      over_row(te::sum, [&](const Indices& at, const Indices&) { return exps(at); }, "softmax_sum");
  return one(map_output(node, [&](const Indices& i) { return exps(i) / total(outer(i)); }));
}

// 1 at the first of the greatest elements, 0 elsewhere.
Result<std::vector<Value*>> hardmax(passes::Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  FETTLE_TRY(int64_t axis, axis_of(node, -1));
  Value* x = node.inputs[0];
  if (node.attrs.get_int("coerced", 0)) {
    x = g("Flatten", {x}, {{{"axis", axis}}});
    axis = 1;
  }
  Value* greatest = g("ArgMax", {x}, {{{"axis", axis}, {"keepdims", int64_t{0}}}});
  Value* extent = g("Squeeze", {g("Shape", {x}, {{{"start", axis}, {"end", axis + 1}}})});
  Value* values = g.constant(to_tensor(std::vector<double>{0, 1}, x->dtype(), {2}).value());
  return std::vector{g.reshape(g("OneHot", {greatest, extent, values}, {{{"axis", axis}}}), shape_of(node, 0))};
}

constexpr OpDef softmax_defs[] = {
    define(kReduction, "Softmax", 1, softmax_type, softmax<false>),
    define(kReduction, "LogSoftmax", 1, softmax_type, softmax<true>),
    passes::composite<hardmax>("Hardmax", 1),
};

}  // namespace

extern constinit const OpFamily softmax_ops{"softmax", softmax_defs};

}  // namespace fettle
