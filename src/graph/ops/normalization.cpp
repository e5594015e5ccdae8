// Batch, layer, group, instance and root-mean-square normalisation.

#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"
#include "graph/op_util.h"

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
  double count = 1;
  for (const Expr& extent : reduced) count *= static_cast<double>(*as_int(extent));
  const Expr scale = constant(1 / count, dtype);
  const auto sum_of = [&](const std::function<Expr(const Indices& kept, const Expr& value)>& term, const char* name) {
    return te::compute(
        kept,
        [&](const std::vector<Var>& i) -> te::Body {
          std::vector<te::ReduceAxis> axes;
          Indices inner;
          for (const Expr& extent : reduced) {
            axes.push_back(te::reduce_axis(extent, fmt::format("k{}", axes.size())));
            inner.push_back(axes.back());
          }
          return te::sum(term(to_indices(i), x(at(to_indices(i), inner))), std::move(axes));
        },
        name);
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
  if (rank_of(node, 0) == 0) return bad_types(node, "the input is a scalar");
  return same_type(node);
}

Types channel_type(const Node& node) {
  if (rank_of(node, 0) < 2) return bad_types(node, "the input has no channels");
  const Dim& channels = shape_of(node, 0)[1];
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const Shape& shape = shape_of(node, i);
    if (shape.size() != 1 || (channels.is_number() && shape[0].is_number() && !(shape[0] == channels)))
      return bad_types(node,
                       fmt::format("input {} of shape {} for {} channels", i, to_string(shape), channels.to_string()));
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
  FETTLE_TRY(const int64_t axis, positive_axis(node, node.attrs.get_int("axis", -1), rank_of(node, 0)));
  TensorType moments = types[0];
  moments.dtype = computed_dtype(moments.dtype);
  std::fill(moments.shape.begin() + axis, moments.shape.end(), Dim(1));
  types.push_back(moments);
  types.push_back(moments);
  return types;
}

// Over all dims from `axis` on; scale and bias are broadcast to the input.
template <bool Centred>
Tensors layer_normalization(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  FETTLE_TRY(const int64_t axis, positive_axis(node, node.attrs.get_int("axis", -1), x.rank()));
  const auto& shape = x.shape();
  const std::vector<Expr> kept(shape.begin(), shape.begin() + axis), reduced(shape.begin() + axis, shape.end());
  const auto join = [](const Indices& a, const Indices& b) {
    Indices all = a;
    all.insert(all.end(), b.begin(), b.end());
    return all;
  };
  const Moments m = moments(x, kept, reduced, join, node.attrs.get_float("epsilon", 1e-5), Centred);
  const auto row_of = [&](const Indices& i) { return Indices(i.begin(), i.begin() + axis); };
  std::vector<te::Tensor> outputs{map_output(node, [&](const Indices& i) {
    Expr value = (Centred ? x(i) - m.mean(row_of(i)) : x(i)) * m.rstd(row_of(i));
    if (in.size() > 1 && in[1]) value = value * read_broadcast(in[1], i);
    if (in.size() > 2 && in[2]) value = value + read_broadcast(in[2], i);
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
  const auto join = [](const Indices& a, const Indices& b) {
    Indices all = a;
    all.insert(all.end(), b.begin(), b.end());
    return all;
  };
  const Moments m =
      moments(x, {shape[0], shape[1]}, {shape.begin() + 2, shape.end()}, join, node.attrs.get_float("epsilon", 1e-5));
  return one(map_output(node, [&](const Indices& i) {
    return (x(i) - m.mean(i[0], i[1])) * m.rstd(i[0], i[1]) * in[1](i[1]) + in[2](i[1]);
  }));
}

Types group_type(const Node& node) {
  if (rank_of(node, 0) < 2) return bad_types(node, "the input has no channels");
  const int64_t groups = node.attrs.get_int("num_groups", 0);
  const Dim& channels = shape_of(node, 0)[1];
  if (groups < 1 || (channels.is_number() && channels.value() % groups != 0))
    return bad_attribute(node, fmt::format("{} channels in {} groups", channels.to_string(), groups));
  return same_type(node);
}

// Over the channels of a group and the spatial dims.
Tensors group_normalization(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  const auto& shape = x.shape();
  const int64_t groups = node.attrs.get_int("num_groups", 1), per_group = *as_int(shape[1]) / groups;
  const bool scale_groups = node.attrs.get_int("per_group", 0) != 0;
  std::vector<Expr> reduced{Expr(per_group)};
  reduced.insert(reduced.end(), shape.begin() + 2, shape.end());
  const Moments m = moments(
      x, {shape[0], Expr(groups)}, reduced,
      [&](const Indices& kept, const Indices& inner) {
        Indices at{kept[0], kept[1] * Expr(per_group) + inner[0]};
        at.insert(at.end(), inner.begin() + 1, inner.end());
        return at;
      },
      node.attrs.get_float("epsilon", 1e-5));
  return one(map_output(node, [&](const Indices& i) {
    const Expr g = floordiv(i[1], Expr(per_group));
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
  const te::Tensor sum = te::compute(
      x.shape(),
      [&](const std::vector<Var>& vars) -> te::Body {
        const te::ReduceAxis k = te::reduce_axis(Expr(size), "k");
        Indices i = to_indices(vars);
        i[1] = i[1] + Expr(k);
        const Expr v = wide(i);
        return te::sum(v * v, {k});
      },
      "lrn_sum");
  return one(map_output(node, [&](const Indices& i) {
    const Expr scale = constant(node.attrs.get_float("alpha", 1e-4) / static_cast<double>(size), dtype);
    const Expr base = constant(node.attrs.get_float("bias", 1), dtype) + scale * sum(i);
    return x(i) / math("pow", {base, constant(node.attrs.get_float("beta", 0.75), dtype)});
  }));
}
Types local_response_type(const Node& node) {
  if (rank_of(node, 0) < 2) return bad_types(node, "the input has no channels");
  if (node.attrs.get_int("size", 0) < 1) return bad_attribute(node, "size is less than one");
  return same_type(node);
}

// x divided by its norm along one axis.
Tensors lp_normalization(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor& x = in[0];
  FETTLE_TRY(const int64_t axis, positive_axis(node, node.attrs.get_int("axis", -1), x.rank()));
  const bool squares = node.attrs.get_int("p", 2) == 2;
  std::vector<Expr> kept = x.shape();
  kept.erase(kept.begin() + axis);
  const te::Tensor norm = te::compute(
      kept,
      [&](const std::vector<Var>& i) -> te::Body {
        const te::ReduceAxis k = te::reduce_axis(x.dim(static_cast<int>(axis)), "k");
        Indices at = to_indices(i);
        at.insert(at.begin() + axis, Expr(k));
        const Expr v = x(at);
        return te::sum(squares ? v * v : math("abs", {v}), {k});
      },
      "norm");
  return one(map_output(node, [&](const Indices& i) {
    Indices row = i;
    row.erase(row.begin() + axis);
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

constexpr auto kReduction = FusionKind::kReduction;
constexpr OpDef defs[] = {
    {.name = "BatchNormalization",
     .fusion = FusionKind::kBroadcast,
     .min_inputs = 5,
     .max_inputs = 5,
     .infer = channel_type,
     .compute = batch_normalization},
    {.name = "LayerNormalization",
     .fusion = kReduction,
     .max_inputs = 3,
     .infer = layer_type,
     .compute = layer_normalization<true>,
     .n_outputs = 3},
    {.name = "RMSNormalization",
     .fusion = kReduction,
     .max_inputs = 2,
     .infer = normalized_type,
     .compute = layer_normalization<false>},
    {.name = "InstanceNormalization",
     .fusion = kReduction,
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = channel_type,
     .compute = instance_normalization},
    {.name = "GroupNormalization",
     .fusion = kReduction,
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = group_type,
     .compute = group_normalization},
    {.name = "LRN", .fusion = kReduction, .infer = local_response_type, .compute = local_response},
    {.name = "LpNormalization", .fusion = kReduction, .infer = lp_type, .compute = lp_normalization},
};

}  // namespace

extern constinit const OpFamily normalization_ops{"normalization", defs};

}  // namespace fettle
