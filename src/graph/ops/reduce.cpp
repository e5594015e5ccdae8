// Reductions over axes: sums, means, norms, extremes and their places.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

// Sorted axes that are reduced away; all, unless given (or none, as noop_with_empty_axes says).
Result<std::vector<int64_t>> reduced_axes(const Node& node) {
  FETTLE_TRY(const auto given, ints_param(node, 1, "axes"));
  const int64_t rank = rank_of(node, 0);
  if (given && !given->empty()) return positive_axes(node, *given, rank);
  std::vector<int64_t> all(node.attrs.get_int("noop_with_empty_axes", 0) ? 0 : static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Types reduce_type(const Node& node) {
  FETTLE_TRY(const auto axes, reduced_axes(node));
  const bool keep = node.attrs.get_int("keepdims", 1) != 0;
  Shape shape;
  for (int64_t d = 0; d < rank_of(node, 0); ++d) {
    if (!std::binary_search(axes.begin(), axes.end(), d))
      shape.push_back(shape_of(node, 0)[static_cast<size_t>(d)]);
    else if (keep)
      shape.push_back(1);
  }
  return one_type(dtype_of(node, 0), std::move(shape));
}

// The elements of the input that output element `i` gathers: the axes, and the input's indices.
struct Gathered {
  std::vector<te::ReduceAxis> axes;
  Indices indices;
  int64_t count = 1;
};

Gathered gather(const te::Tensor& x, const std::vector<int64_t>& axes, bool keep, const Indices& i) {
  Gathered g;
  size_t next = 0;
  for (int d = 0; d < x.rank(); ++d) {
    if (std::binary_search(axes.begin(), axes.end(), int64_t{d})) {
      g.axes.push_back(te::reduce_axis(x.dim(d), "k" + std::to_string(g.axes.size())));
      g.indices.push_back(g.axes.back().var);
      g.count *= *as_int(x.dim(d));
      if (keep) ++next;
    } else {
      g.indices.push_back(i[next++]);
    }
  }
  return g;
}

using Reduce = te::Reduction (*)(Expr, std::vector<te::ReduceAxis>);

// A reduction over nothing is its identity.
te::Body over_axes(Reduce reduce, Expr source, const Gathered& g) {
  te::Reduction r = reduce(std::move(source), g.axes);
  if (g.count == 0) return r.identity[0];
  return r;
}

// What is summed, how, and what is made of the result.
struct Kind {
  Expr (*source)(const Expr& x);
  Reduce reduce;
  bool finishes;  // a second step follows the reduction
  Expr (*finish)(const Expr& sum, int64_t count);
};

template <class F>
bool given(F* function) {
  return function != nullptr;
}

template <const Kind& K>
Tensors reduction(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto axes, reduced_axes(node));
  const bool keep = node.attrs.get_int("keepdims", 1) != 0;
  const auto source_of = K.source;
  const auto finish = K.finish;
  int64_t count = 1;
  te::Tensor result = te::compute(
      shape_exprs(output_shape(node)),
      [&](const std::vector<Var>& i) -> te::Body {
        Gathered g = gather(in[0], axes, keep, to_indices(i));
        count = g.count;
        const Expr x = in[0](g.indices);
        Expr source = given(source_of) ? source_of(x) : x;
        if (g.axes.empty()) return source;
        return over_axes(K.reduce, std::move(source), g);
      },
      tensor_name(node));
  if (!given(finish)) return one(result);
  return one(map_output(node, [&](const Indices& i) { return finish(result(i), count); }));
}

Expr absolute(const Expr& x) { return x.dtype().is_float() ? math("abs", {x}) : max(x, constant(0, x.dtype()) - x); }
Expr square(const Expr& x) { return x * x; }
Expr over_count(const Expr& sum, int64_t count) {
  return divide(sum, constant(static_cast<double>(count), sum.dtype()));
}
Expr root(const Expr& sum, int64_t) {
  return sum.dtype().is_float() ? math("sqrt", {sum}) : cast(sum.dtype(), math("sqrt", {cast(kF64, sum)}));
}
Expr log_of(const Expr& sum, int64_t) { return math("log", {sum}); }

Expr unchanged(const Expr& x) { return x; }
Expr done(const Expr& sum, int64_t) { return sum; }

constexpr Kind kSum{unchanged, te::sum, false, done};
constexpr Kind kMean{unchanged, te::sum, true, over_count};
constexpr Kind kMax{unchanged, te::max, false, done};
constexpr Kind kMin{unchanged, te::min, false, done};
constexpr Kind kProd{unchanged, te::prod, false, done};
constexpr Kind kL1{absolute, te::sum, false, done};
constexpr Kind kL2{square, te::sum, true, root};
constexpr Kind kSumSquare{square, te::sum, false, done};
constexpr Kind kMeanSquare{square, te::sum, true, over_count};
constexpr Kind kLogSum{unchanged, te::sum, true, log_of};

// log Σ e^x = m + log Σ e^(x-m), m the maximum, so that nothing overflows.
Tensors log_sum_exp(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto axes, reduced_axes(node));
  const bool keep = node.attrs.get_int("keepdims", 1) != 0;
  const auto shape = shape_exprs(output_shape(node));
  const te::Tensor greatest = te::compute(
      shape,
      [&](const std::vector<Var>& i) -> te::Body {
        Gathered g = gather(in[0], axes, keep, to_indices(i));
        if (g.axes.empty()) return in[0](g.indices);
        return over_axes(te::max, in[0](g.indices), g);
      },
      "greatest");
  const te::Tensor sum = te::compute(
      shape,
      [&](const std::vector<Var>& i) -> te::Body {
        Gathered g = gather(in[0], axes, keep, to_indices(i));
        const Expr term = math("exp", {in[0](g.indices) - greatest(i)});
        if (g.axes.empty()) return term;
        return over_axes(te::sum, term, g);
      },
      tensor_name(node));
  return one(map_output(node, [&](const Indices& i) { return greatest(i) + math("log", {sum(i)}); }));
}

Types arg_type(const Node& node) {
  FETTLE_TRY(const int64_t axis, positive_axis(node, node.attrs.get_int("axis", 0), rank_of(node, 0)));
  Shape shape = shape_of(node, 0);
  if (node.attrs.get_int("keepdims", 1))
    shape[static_cast<size_t>(axis)] = 1;
  else
    shape.erase(shape.begin() + axis);
  return one_type(kI64, std::move(shape));
}

// The number next to x (f32, f64) towards minus (or plus) infinity; after the last of them NaN.
Expr next_number(const Expr& x, bool below) {
  const DType ints = x.dtype().bits == 64 ? kI64 : kI32;
  const double least = x.dtype().bits == 64 ? std::numeric_limits<double>::denorm_min()
                                            : std::numeric_limits<float>::denorm_min();
  const Expr zero = constant(0, x.dtype());
  const Expr grows = below ? lt(x, zero) : gt(x, zero);
  const Expr bits = call("bitcast", {x}, ints) + select(grows, constant(1, ints), constant(-1, ints));
  return select(eq(x, zero), float_imm(below ? -least : least, x.dtype()), call("bitcast", {bits}, x.dtype()));
}

// What the extreme is, then the first (or last) place of what is equal to it: both are reductions of one state, which have
// lanes whatever lies side by side. Where any are NaN, the extreme is, and the place is the first (or last) such: one
// comparison with a limit excludes numbers less than the extreme, or, with infinity, all numbers.
template <bool Greatest>
Tensors arg_extreme(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, positive_axis(node, node.attrs.get_int("axis", 0), rank_of(node, 0)));
  const bool keep = node.attrs.get_int("keepdims", 1) != 0;
  const bool last = node.attrs.get_int("select_last_index", 0) != 0;
  const auto shape = shape_exprs(output_shape(node));
  const te::Tensor extreme = te::compute(
      shape,
      [&](const std::vector<Var>& i) -> te::Body {
        Gathered g = gather(in[0], {axis}, keep, to_indices(i));
        return Greatest ? te::max(in[0](g.indices), g.axes) : te::min(in[0](g.indices), g.axes);
      },
      Greatest ? "greatest" : "least");
  const bool is_float = in[0].dtype().is_float();
  const DType compared = is_float && in[0].dtype().bits == 16 ? kF32 : in[0].dtype();
  const te::Tensor limit = te::compute(
      shape,
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
  const te::Tensor place = te::compute(
      shape,
      [&](const std::vector<Var>& i) -> te::Body {
        Gathered g = gather(in[0], {axis}, keep, to_indices(i));
        const Expr x = cast(compared, in[0](g.indices));
        const Expr is_less = !is_float ? ne(x, limit(i)) : Greatest ? le(x, limit(i)) : le(limit(i), x);
        const Expr here = select(is_less, nowhere, cast(type, g.axes[0].var));
        return last ? te::max(here, g.axes) : te::min(here, g.axes);
      },
      tensor_name(node));
  return one(map_output(node, [&](const Indices& i) { return cast(kI64, place(i)); }));
}

constexpr ParamInput axes_param[] = {{1, "axes", ParamInput::Kind::kInts}};
constexpr OpDef reducer(std::string_view name, Tensors (*compute)(const Node&, std::span<const te::Tensor>)) {
  return {.name = name,
          .fusion = FusionKind::kReduction,
          .max_inputs = 2,
          .infer = reduce_type,
          .compute = compute,
          .params = axes_param};
}

constexpr OpDef defs[] = {
    reducer("ReduceSum", reduction<kSum>),
    reducer("ReduceMean", reduction<kMean>),
    reducer("ReduceMax", reduction<kMax>),
    reducer("ReduceMin", reduction<kMin>),
    reducer("ReduceProd", reduction<kProd>),
    reducer("ReduceL1", reduction<kL1>),
    reducer("ReduceL2", reduction<kL2>),
    reducer("ReduceSumSquare", reduction<kSumSquare>),
    reducer("ReduceMeanSquare", reduction<kMeanSquare>),  // Fettle's own
    reducer("ReduceLogSum", reduction<kLogSum>),
    reducer("ReduceLogSumExp", log_sum_exp),
    {.name = "ArgMax", .fusion = FusionKind::kReduction, .infer = arg_type, .compute = arg_extreme<true>},
    {.name = "ArgMin", .fusion = FusionKind::kReduction, .infer = arg_type, .compute = arg_extreme<false>},
};

}  // namespace

extern constinit const OpFamily reduce_ops{"reduce", defs};

}  // namespace fettle
