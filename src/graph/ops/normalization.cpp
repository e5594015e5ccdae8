// Batch, layer, group, instance and root-mean-square normalisation.

#include <fmt/format.h>

#include "graph/parameter_shapes.h"
#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;

// Mean and reciprocal standard deviation over some axes of x, by which all of these normalise. Variance is the mean of
// the squared distances from the mean, in two passes.
struct Moments {
  te::Tensor mean, rstd;  // over the kept dims
};

// `at` gives x's indices from the kept dims' and the reduced ones'.
using Place = std::function<Indices(const Indices& kept, const Indices& reduced)>;

Moments moments(const te::Tensor& x, const std::vector<Expr>& kept, const std::vector<Expr>& reduced, const Place& at,
                double epsilon, bool centred = true) {
  const DType dtype = x.dtype();
  const Expr scale = inverse_count(reduced, dtype);
  const auto sum_of = [&](const std::function<Expr(const Indices& kept, const Expr& value)>& term, const char* name) {
    return reduce_row(
        te::sum, kept, reduce_axes(reduced),
        [&](const Indices& i, const Indices& inner) { return term(i, x(at(i, inner))); }, name);
  };
  Moments m;
  if (centred) {
    const te::Tensor sum = sum_of([](const Indices&, const Expr& v) { return v; }, "sum");
    m.mean = te::compute(kept, [&](const std::vector<Var>& i) { return sum(i) * scale; }, "mean");
  }
  const te::Tensor squares = sum_of(
      [&](const Indices& i, const Expr& v) {
        const Expr distance = centred ? v - m.mean(i) : v;
        return distance * distance;
      },
      "squares");
  m.rstd = te::compute(
      kept, [&](const std::vector<Var>& i) { return math("rsqrt", {squares(i) * scale + constant(epsilon, dtype)}); },
      "rstd");
  return m;
}

Types normalized_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  for (size_t i = 1; i < node.inputs.size(); ++i) FETTLE_TRY_VOID(check_broadcasts_to(node, shape_of(node, 0), i));
  return same_type(node);
}

Types channel_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    FETTLE_TRY_VOID(check_rank(node, i, 1, 1));
    FETTLE_TRY_VOID(
        common_dim(node, shape_of(node, 0)[1], shape_of(node, i)[0], fmt::format("channels and input {}", i)));
  }
  return same_type(node);
}

// (x - mean) / sqrt(var + epsilon) * scale + bias, a channel of dim 1 at a time, with given statistics.
Tensors batch_normalization(const Node& node, std::span<const te::Tensor> in) {
  const DType dtype = in[0].dtype();
  const Expr epsilon = constant(node.attrs.get_float("epsilon", 1e-5), dtype);
  const te::Tensor factor = te::compute(
      in[1].shape(),
      [&](const std::vector<Var>& c) { return in[1](c) * math("rsqrt", {cast(dtype, in[4](c)) + epsilon}); }, "factor");
  return one(map_output(node, [&](const Indices& i) {
    const Expr& c = i[1];
    return (in[0](i) - in[3](c)) * factor(c) + in[2](c);
  }));
}

// y, and where the model asks for them the mean and the reciprocal deviation, whose normalised dims are 1.
Types layer_type(const Node& node) {
  FETTLE_TRY(auto types, normalized_type(node));
  FETTLE_TRY(const int64_t axis, axis_of(node, -1));
  TensorType moments = types[0];
  moments.dtype = computed_dtype(moments.dtype);
  std::fill(moments.shape.begin() + axis, moments.shape.end(), Dim(1));
  return joined(types, {moments, moments});
}

// Over all dims from `axis` on; scale and bias are broadcast to the input.
template <bool Centred>
Tensors layer_normalization(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  FETTLE_TRY(const int64_t axis, axis_of(node, -1, x.rank()));
  const auto& shape = x.shape();
  const std::vector<Expr> kept(shape.begin(), shape.begin() + axis), reduced(shape.begin() + axis, shape.end());
  const Moments m = moments(x, kept, reduced, joined<Expr>, node.attrs.get_float("epsilon", 1e-5), Centred);
  const auto row_of = [&](const Indices& i) { return Indices(i.begin(), i.begin() + axis); };
  std::vector<te::Tensor> outputs{map_output(node, [&](const Indices& i) {
    Expr value = (Centred ? x(i) - m.mean(row_of(i)) : x(i)) * m.rstd(row_of(i));
    if (has_tensor(in, 1)) value = value * read_broadcast(in[1], i);
    if (has_tensor(in, 2)) value = value + read_broadcast(in[2], i);
    return value;
  })};
  if (node.outputs.size() > 1)
    outputs.push_back(map_output(node, [&](const Indices& i) { return m.mean(row_of(i)); }, 1));
  if (node.outputs.size() > 2)
    outputs.push_back(map_output(node, [&](const Indices& i) { return m.rstd(row_of(i)); }, 2));
  return outputs;
}

// Over the spatial dims of each channel.
Tensors instance_normalization(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  const auto& shape = x.shape();
  const Moments m = moments(x, {shape[0], shape[1]}, {shape.begin() + 2, shape.end()}, joined<Expr>,
                            node.attrs.get_float("epsilon", 1e-5));
  return one(map_output(node, [&](const Indices& i) {
    return (x(i) - m.mean(i[0], i[1])) * m.rstd(i[0], i[1]) * in[1](i[1]) + in[2](i[1]);
  }));
}

Types group_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  const int64_t groups = node.attrs.get_int("num_groups", 0);
  const Dim& channels = shape_of(node, 0)[1];
  if (groups < 1 || !may_divide(groups, channels))
    return bad_attribute(node, fmt::format("{} channels in {} groups", channels.to_string(), groups));
  note_divides(node, groups, channels, "channels in groups");
  const bool scale_groups = node.attrs.get_int("per_group", 0) != 0;
  for (const size_t i : {1, 2}) {
    FETTLE_TRY_VOID(check_rank(node, i, 1, 1));
    FETTLE_TRY_VOID(common_dim(node, scale_groups ? Dim(groups) : channels, shape_of(node, i)[0],
                               fmt::format("{} and input {}", scale_groups ? "groups" : "channels", i)));
  }
  return same_type(node);
}

// Over the channels of a group and the spatial dims.
Tensors group_normalization(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  const auto& shape = x.shape();
  const int64_t groups = node.attrs.get_int("num_groups", 1);
  const Dim channels = floordiv(shape_of(node, 0)[1], groups);
  const Expr per_group = size_expr(channels);
  const bool scale_groups = node.attrs.get_int("per_group", 0) != 0;
  const auto reduced = joined({per_group}, Indices(shape.begin() + 2, shape.end()));
  const Moments m = moments(
      x, {shape[0], Expr(groups)}, reduced,
      [&](const Indices& kept, const Indices& inner) {
        return joined({kept[0], kept[1] * per_group + inner[0]}, Indices(inner.begin() + 1, inner.end()));
      },
      node.attrs.get_float("epsilon", 1e-5));
  return one(map_output(node, [&](const Indices& i) {
    const Expr g = floordiv(i[1], divisor_expr(channels));
    const Expr c = scale_groups ? g : i[1];
    return (x(i) - m.mean(i[0], g)) * m.rstd(i[0], g) * in[1](c) + in[2](c);
  }));
}

// x / (bias + alpha/size * Σ x²)^beta, the sum over `size` neighbouring channels.
Tensors local_response(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  const int64_t size = node.attrs.get_int("size", 1), before = (size - 1) / 2;
  const DType dtype = x.dtype();
  std::vector<Expr> front(x.shape().size(), Expr(0)), back(x.shape().size(), Expr(0));
  front[1] = before;
  back[1] = size - 1 - before;
  const te::Tensor wide = te::pad(x, front, back, constant(0, dtype), "lrn_pad");
  const te::Tensor sum = reduce_over(
      te::sum, x.shape(), {te::reduce_axis(Expr(size), "k")},
      [&](const Indices& i, const Indices& k) {
        const Expr v = wide(with_replaced(i, 1, i[1] + k[0]));
        return v * v;
      },
      "lrn_sum");
  return one(map_output(node, [&](const Indices& i) {
    const Expr scale = constant(node.attrs.get_float("alpha", 1e-4) / static_cast<double>(size), dtype);
    const Expr base = constant(node.attrs.get_float("bias", 1), dtype) + scale * sum(i);
    return x(i) / math("pow", {base, constant(node.attrs.get_float("beta", 0.75), dtype)});
  }));
}
Types local_response_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  if (node.attrs.get_int("size", 0) < 1) return bad_attribute(node, "size is less than one");
  return same_type(node);
}

// x divided by its norm along one axis.
Tensors lp_normalization(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  FETTLE_TRY(const int64_t axis, axis_of(node, -1, x.rank()));
  const bool squares = node.attrs.get_int("p", 2) == 2;
  const te::Tensor norm = reduce_row(
      te::sum, without(x.shape(), axis), {te::reduce_axis(x.dim(static_cast<int>(axis)), "k")},
      [&](const Indices& i, const Indices& k) {
        const Expr v = x(with_inserted(i, axis, k[0]));
        return squares ? v * v : math("abs", {v});
      },
      "norm");
  return one(map_output(node, [&](const Indices& i) {
    const Indices row = without(i, axis);
    const Expr n = squares ? math("sqrt", {norm(row)}) : norm(row);
    // A zero vector stays zero.
    return select(eq(n, constant(0, n.dtype())), constant(0, n.dtype()), x(i) / n);
  }));
}
Types lp_type(const Node& node) {
  const int64_t p = node.attrs.get_int("p", 2);
  if (p != 1 && p != 2) return bad_attribute(node, "p is neither 1 nor 2");
  return normalized_type(node);
}

// (x - mean) / (deviation + 1e-9), over the axes
Result<std::vector<Value*>> mean_variance(passes::Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  FETTLE_TRY(const auto axes, positive_axes(node, node.attrs.get_ints("axes", {0, 2, 3}), rank_of(node, 0)));
  Value* x = node.inputs[0];
  Value* distance = g("Sub", {x, g.reduce("ReduceMean", x, axes, true)});
  Value* variance = g.reduce("ReduceMeanSquare", distance, axes, true);
  return std::vector{g("Div", {distance, g("Add", {g("Sqrt", {variance}), g.number(1e-9, x->dtype())})})};
}

constexpr OpDef normalization_defs[] = {
    define(kBroadcast, "BatchNormalization", 5, channel_type, batch_normalization),
    define(kReduction, "LayerNormalization", {1, 3}, layer_type, layer_normalization<true>, {.n_outputs = 3}),
    define(kReduction, "RMSNormalization", {1, 2}, normalized_type, layer_normalization<false>),
    define(kReduction, "InstanceNormalization", 3, channel_type, instance_normalization),
    define(kReduction, "GroupNormalization", 3, group_type, group_normalization),
    define(kReduction, "LRN", 1, local_response_type, local_response),
    passes::composite<mean_variance>("MeanVarianceNormalization", 1),
    define(kReduction, "LpNormalization", 1, lp_type, lp_normalization),
};

}  // namespace

extern constinit const OpFamily normalization_ops{"normalization", normalization_defs};

}  // namespace fettle
