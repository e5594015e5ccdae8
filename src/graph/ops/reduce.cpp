// Reductions over axes: sums, means, norms, extremes and their places.

#include <algorithm>

#include <cmath>
#include <limits>

#include "graph/op_util.h"
#include "graph/passes/data_axes.h"

namespace fettle {
namespace {

using namespace ops;

// Sorted axes that are reduced away; all, unless given (or none, as noop_with_empty_axes says).
Result<std::vector<int64_t>> reduced_axes(const Node& node) {
  FETTLE_TRY(const auto given, ints_param(node, 1, "axes"));
  if (given && !given->empty()) return positive_axes(node, *given, rank_of(node, 0));
  return first_numbers(node.attrs.get_int("noop_with_empty_axes", 0) ? 0 : shape_of(node, 0).size());
}

bool keeps_dims(const Node& node) { return node.attrs.get_int("keepdims", 1) != 0; }

// The input's shape without the axes, or with 1 in their places.
Shape reduced_shape(const Node& node, const std::vector<int64_t>& axes) {
  Shape shape = shape_of(node, 0);
  for (size_t k = axes.size(); k-- > 0;)
    shape = keeps_dims(node) ? with_replaced(shape, axes[k], 1) : without(shape, axes[k]);
  return shape;
}

Types reduce_type(const Node& node) {
  FETTLE_TRY(const auto axes, reduced_axes(node));
  return same_dtype(node, reduced_shape(node, axes));
}

// The node's output as a reduction of `element`s of the input: of their places, and the place of the result.
using Element = std::function<Expr(const Indices& at, const Indices& i)>;
te::Tensor over_axes(const Node& node, const te::Tensor& x, const std::vector<int64_t>& axes, Reduce reduce,
                     const Element& element, std::string name) {
  std::vector<Expr> extents;
  for (const int64_t axis : axes) extents.push_back(x.dim(static_cast<int>(axis)));
  return reduce_over(
      reduce, size_exprs(output_shape(node)), reduce_axes(extents),
      [&](const Indices& i, const Indices& reduced) {
        Indices at = i;
        for (size_t k = 0; k < axes.size(); ++k)
          at = keeps_dims(node) ? with_replaced(at, axes[k], reduced[k]) : with_inserted(at, axes[k], reduced[k]);
        return element(at, i);
      },
      std::move(name));
}

// What is summed, how, and what is made of the result.
struct Kind {
  Expr (*source)(const Expr& x);
  Reduce reduce;
  Expr (*finish)(const Expr& sum, const Dim& count) = nullptr;  // a second step
};

Tensors reduce_as(const Kind& kind, const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto axes, reduced_axes(node));
  const bool is_truth = in[0].dtype().is_bool();  // 0 or 1
  const auto element = [&](const Indices& at) { return is_truth ? cast(kU8, in[0](at)) : in[0](at); };
  const te::Tensor result = over_axes(
      node, in[0], axes, kind.reduce, [&](const Indices& at, const Indices&) { return kind.source(element(at)); },
      tensor_name(node));
  if (is_truth) return one(map_output(node, [&](const Indices& i) { return ne(result(i), int_imm(0, kU8)); }));
  if (!kind.finish) return one(result);
  Dim count = 1;
  for (const int64_t axis : axes) count = count * shape_of(node, 0)[static_cast<size_t>(axis)];
  return one(map_output(node, [&](const Indices& i) { return kind.finish(result(i), count); }));
}
template <const Kind& K>
Tensors reduction(const Node& node, std::span<const te::Tensor> in) {
  return reduce_as(K, node, in);
}

// Of all elements of a small tensor.
template <Dim (*F)(const Dim&, const Dim&)>
std::optional<std::vector<Dim>> content(const Node& node) {
  const auto all = content_of(*node.inputs[0]);
  const auto axes = reduced_axes(node);
  if (!all || all->empty() || !axes) return std::nullopt;
  if (axes->size() != shape_of(node, 0).size()) return all;
  Dim result = all->front();
  for (size_t i = 1; i < all->size(); ++i) result = F(result, (*all)[i]);
  return std::vector<Dim>{result};
}

Expr absolute(const Expr& x) { return x.dtype().is_float() ? math("abs", {x}) : max(x, constant(0, x.dtype()) - x); }
Expr square(const Expr& x) { return x * x; }
Expr over_count(const Expr& sum, const Dim& count) {
  if (!count.is_number())
    return divide(sum, cast(sum.dtype(), sum.dtype().is_int() ? divisor_expr(count) : size_expr(count)));
  return divide(sum, constant(static_cast<double>(count.value()), sum.dtype()));
}
Expr root(const Expr& sum, const Dim&) {
  return sum.dtype().is_float() ? math("sqrt", {sum}) : cast(sum.dtype(), math("sqrt", {cast(kF64, sum)}));
}
Expr log_of(const Expr& sum, const Dim&) { return math("log", {sum}); }

Expr unchanged(const Expr& x) { return x; }

constexpr Kind kSum{unchanged, te::sum};
constexpr Kind kMean{unchanged, te::sum, over_count};
constexpr Kind kMax{unchanged, te::max};
constexpr Kind kMin{unchanged, te::min};
constexpr Kind kProd{unchanged, te::prod};
constexpr Kind kL1{absolute, te::sum};
constexpr Kind kL2{square, te::sum, root};
constexpr Kind kSumSquare{square, te::sum};
constexpr Kind kMeanSquare{square, te::sum, over_count};
constexpr Kind kLogSum{unchanged, te::sum, log_of};

// log Σ e^x = m + log Σ e^(x-m), m the maximum, so that nothing overflows; NaN comes through in the sum.
Tensors log_sum_exp(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto axes, reduced_axes(node));
  const te::Tensor greatest = over_axes(
      node, in[0], axes, te::ordered_max, [&](const Indices& at, const Indices&) { return in[0](at); }, "greatest");
  const te::Tensor sum = over_axes(
      node, in[0], axes, te::sum,
      [&](const Indices& at, const Indices& i) { return math("exp", {in[0](at) - greatest(i)}); }, tensor_name(node));
  return one(map_output(node, [&](const Indices& i) { return greatest(i) + math("log", {sum(i)}); }));
}

Types arg_type(const Node& node) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0));
  const Shape shape = reduced_shape(node, {axis});
  note_not_negative(node, shape_of(node, 0)[static_cast<size_t>(axis)] - min(element_count(shape), 1),
                    "elements to choose from");
  return one_type(kI64, shape);
}

// The number next to zero towards minus (or plus) infinity, where `zero` is one: of normal numbers, where a half of the
// least of these is zero, as it is in a call that flushes denormal numbers. What is asked is computed, so that it is
// true of the call.
Expr next_to_zero(const Expr& zero, bool below) {
  const DType type = zero.dtype();
  const double normal = type.bits == 64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  const double denormal =
      type.bits == 64 ? std::numeric_limits<double>::denorm_min() : std::numeric_limits<float>::denorm_min();
  const Expr half = (zero + float_imm(normal, type)) * constant(0.5, type);
  return select(eq(half, constant(0, type)), float_imm(below ? -normal : normal, type),
                float_imm(below ? -denormal : denormal, type));
}

// The number next to x (f32, f64) towards minus (or plus) infinity; after the last of them NaN.
Expr next_number(const Expr& x, bool below) {
  const DType ints = x.dtype().bits == 64 ? kI64 : kI32;
  const Expr zero = constant(0, x.dtype());
  const Expr grows = below ? lt(x, zero) : gt(x, zero);
  const Expr bits = call("bitcast", {x}, ints) + select(grows, constant(1, ints), constant(-1, ints));
  return select(eq(x, zero), next_to_zero(x, below), call("bitcast", {bits}, x.dtype()));
}

// What the extreme is, then the first (or last) place of what is equal to it: both are reductions of one state, which
// have lanes whatever lies side by side. Where any are NaN, the extreme is, and the place is the first (or last) such:
// one comparison with a limit excludes numbers less than the extreme, or, with infinity, all numbers.
template <bool Greatest>
Tensors arg_extreme(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0));
  const bool last = node.attrs.get_int("select_last_index", 0) != 0;
  const te::Tensor extreme = over_axes(
      node, in[0], {axis}, Greatest ? te::max : te::min, [&](const Indices& at, const Indices&) { return in[0](at); },
      Greatest ? "greatest" : "least");
  const bool is_float = in[0].dtype().is_float();
  const DType compared = is_float && in[0].dtype().bits == 16 ? kF32 : in[0].dtype();
  const te::Tensor limit = te::compute(
      extreme.shape(),
      [&](const std::vector<Var>& i) -> te::Body {
        const Expr e = cast(compared, extreme(i));
        if (!is_float) return e;
        const double last = Greatest ? HUGE_VAL : -HUGE_VAL;
        return select(call("isnan", {e}, kBool), float_imm(last, compared), next_number(e, Greatest));
      },
      "limit");
  const bool is_short = shape_of(node, 0)[static_cast<size_t>(axis)].max() < INT32_MAX;
  const DType type = is_short ? kI32 : kI64;
  const Expr nowhere = is_short ? constant(last ? -1 : INT32_MAX, kI32) : Expr(last ? -1 : INT64_MAX);
  const te::Tensor place = over_axes(
      node, in[0], {axis}, last ? te::max : te::min,
      [&](const Indices& at, const Indices& i) {
        const Expr x = cast(compared, in[0](at));
        const Expr is_less = !is_float ? ne(x, limit(i)) : Greatest ? le(x, limit(i)) : le(limit(i), x);
        return select(is_less, nowhere, cast(type, at[static_cast<size_t>(axis)]));
      },
      tensor_name(node));
  return one(map_output(node, [&](const Indices& i) { return cast(kI64, place(i)); }));
}

constexpr ParamInput axes_param[] = {{1, "axes", kInts}};
constexpr OpDef reducer(std::string_view name, Compute compute, Content content = nullptr) {
  return passes::by_data<passes::reduce_by_data>(
      define(kReduction, name, {1, 2}, reduce_type, compute, {.params = axes_param, .content = content}));
}

constexpr OpDef reduce_defs[] = {
    reducer("ReduceSum", reduction<kSum>, content<operator+ >),
    reducer("ReduceMean", reduction<kMean>),
    reducer("ReduceMax", reduction<kMax>, content<fettle::max>),
    reducer("ReduceMin", reduction<kMin>, content<fettle::min>),
    reducer("ReduceProd", reduction<kProd>, content<operator*>),
    reducer("ReduceL1", reduction<kL1>),
    reducer("ReduceL2", reduction<kL2>),
    reducer("ReduceSumSquare", reduction<kSumSquare>),
    reducer("ReduceMeanSquare", reduction<kMeanSquare>),  // Fettle's own
    reducer("ReduceLogSum", reduction<kLogSum>),
    reducer("ReduceLogSumExp", log_sum_exp),
    define(kReduction, "ArgMax", 1, arg_type, arg_extreme<true>),
    define(kReduction, "ArgMin", 1, arg_type, arg_extreme<false>),
};

}  // namespace

extern constinit const OpFamily reduce_ops{"reduce", reduce_defs};

}  // namespace fettle
