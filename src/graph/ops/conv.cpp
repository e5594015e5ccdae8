// Convolution and transposed convolution over any number of spatial dims, grouped, dilated, padded.

#include <functional>

#include <fmt/format.h>

#include "graph/op_util.h"
#include "graph/window.h"

namespace fettle {
namespace {

using namespace ops;

Shape spatial(const Shape& shape) { return Shape(shape.begin() + 2, shape.end()); }

Result<std::vector<int64_t>> kernel_of(const Node& node) {
  const auto kernel = static_shape(spatial(shape_of(node, 1)));
  if (!kernel)
    return not_known(node, fmt::format("{}: the kernel extents of the weights {} must be fixed", node.op->name,
                                       to_string(shape_of(node, 1))));
  const auto stated = node.attrs.get_ints("kernel_shape", *kernel);
  if (stated != *kernel) return bad_attribute(node, "kernel_shape does not fit the weights");
  return *kernel;
}

Result<> check_operands(const Node& node) {
  if (rank_of(node, 0) < 3 || rank_of(node, 0) != rank_of(node, 1))
    return bad_types(
        node, fmt::format("an input {} and weights {}", to_string(shape_of(node, 0)), to_string(shape_of(node, 1))));
  FETTLE_TRY_VOID(check_same_dtype(node, 0, 1));
  if (node.attrs.get_int("group", 1) < 1) return bad_attribute(node, "group is less than one");
  return {};
}

// The weights fit so many channels of the input, and the bias those of the output.
Result<> check_channels(const Node& node, const Dim& in, const Dim& out, const Value* bias) {
  const int64_t group = node.attrs.get_int("group", 1);
  const Dim& channels = shape_of(node, 0)[1];
  if (!may_equal(channels, in) || !may_divide(group, in) || !may_divide(group, out))
    return bad_types(node, fmt::format("{} channels, but weights {} in {} groups", channels.to_string(),
                                       to_string(shape_of(node, 1)), group));
  note_equal(node, channels, in, "channels of input and weights");
  note_divides(node, group, in, "channels in groups");
  note_divides(node, group, out, "output channels in groups");
  if (!bias) return {};
  FETTLE_TRY_VOID(check_rank(node, 2, 1, 1));
  FETTLE_TRY_VOID(common_dim(node, out, bias->shape()[0], "output channels and bias"));
  return {};
}

Result<Window> window_of(const Node& node) {
  FETTLE_TRY(auto kernel, kernel_of(node));
  return read_window(node, std::move(kernel));
}

Types conv_type(const Node& node) {
  FETTLE_TRY_VOID(check_operands(node));
  FETTLE_TRY(const Window window, window_of(node));
  const Shape &x = shape_of(node, 0), &w = shape_of(node, 1);
  FETTLE_TRY_VOID(check_channels(node, w[1] * node.attrs.get_int("group", 1), w[0], node.input(2)));
  return same_dtype(node, joined({x[0], w[0]}, window.output));
}

te::Tensor with_bias(const Node& node, const te::Tensor& sum, std::span<const te::Tensor> in) {
  if (!has_tensor(in, 2)) return sum;
  return te::compute(
      sum.shape(), [&](const std::vector<Var>& i) { return sum(i) + in[2](i[1]); }, tensor_name(node) + "_bias");
}

std::vector<te::ReduceAxis> kernel_axes(const Window& window) {
  if (window.n_dims() != 2) return reduce_axes({window.kernel.begin(), window.kernel.end()});
  return {te::reduce_axis(Expr(window.kernel[0]), "kh"), te::reduce_axis(Expr(window.kernel[1]), "kw")};
}

std::vector<std::string> output_axis_names(size_t n_spatial) {
  if (n_spatial == 2) return {"n", "oc", "oh", "ow"};
  std::vector<std::string> names{"n", "oc"};
  for (size_t d = 0; d < n_spatial; ++d) names.push_back(fmt::format("o{}", d));
  return names;
}

// What is multiplied: a pixel's channel by the weight of an output channel.
using Weigh = std::function<Expr(const Expr& x, const Indices& at_weight)>;

//   y[n, oc, o…] = Σ_{ic, k…} pad(x)[n, g*C/G + ic, o*stride + k*dilation] * w[oc, ic, k…],   g = oc / (OC/G)
te::Tensor convolution(const Node& node, const te::Tensor& padded, const Window& window, const Weigh& weigh) {
  const int64_t group = node.attrs.get_int("group", 1);
  const Dim in_per_group = shape_of(node, 1)[1], out_per_group = floordiv(shape_of(node, 1)[0], group);
  const bool one_each = in_per_group == Dim(1);
  std::vector<te::ReduceAxis> axes = kernel_axes(window);
  if (!one_each) axes.insert(axes.begin(), te::reduce_axis(size_expr(in_per_group), "ic"));
  return reduce_over(
      te::sum, size_exprs(output_shape(node)), axes,
      [&](const Indices& i, const Indices& reduced) {
        const Indices k(reduced.end() - static_cast<std::ptrdiff_t>(window.n_dims()), reduced.end());
        const Expr ic = one_each ? Expr(0) : reduced[0];
        const Expr first = group == 1 ? Expr(0) : floordiv(i[1], divisor_expr(out_per_group)) * size_expr(in_per_group);
        Indices at{i[0], first + ic};
        for (size_t d = 0; d < k.size(); ++d)
          at.push_back(i[d + 2] * Expr(window.strides[d]) + k[d] * Expr(window.dilations[d]));
        return weigh(padded(std::move(at)), joined({i[1], ic}, k));
      },
      group > 1 && one_each ? "depthwise_conv" : "conv", output_axis_names(window.n_dims()));
}

Tensors conv(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Window window, window_of(node));
  const te::Tensor x = padded(in[0], window, constant(0, in[0].dtype()), "conv_pad");
  const te::Tensor sum =
      convolution(node, x, window, [&](const Expr& pixel, const Indices& at) { return pixel * in[1](at); });
  return one(with_bias(node, sum, in));
}

// --- ConvInteger: (x - x zero point) * (w - w zero point) of bytes, in i32. The zero point of x is one number; of w
// one number, or one an output channel. Around the image lie zeros, or with `pad_value` bytes of this value, from which
// no zero point is taken.

bool is_one_number(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& d) { return d == Dim(1); });
}

Types conv_integer_type(const Node& node) {
  if (rank_of(node, 0) < 3 || rank_of(node, 0) != rank_of(node, 1))
    return bad_types(
        node, fmt::format("an input {} and weights {}", to_string(shape_of(node, 0)), to_string(shape_of(node, 1))));
  if (node.attrs.get_int("group", 1) < 1) return bad_attribute(node, "group is less than one");
  for (size_t i = 0; i < 2; ++i) {
    const DType dtype = dtype_of(node, i);
    if (dtype != kI8 && dtype != kU8) return bad_types(node, "an operand is of " + dtype.to_string());
    if (has_input(node, i + 2) && dtype_of(node, i + 2) != dtype)
      return bad_types(node, "a zero point is of another type than its operand");
  }
  if (has_input(node, 2) && !is_one_number(shape_of(node, 2)))
    return bad_types(node, "the input's zero point is not one number");
  const Shape &x = shape_of(node, 0), &w = shape_of(node, 1);
  if (has_input(node, 3) && !is_one_number(shape_of(node, 3))) {
    FETTLE_TRY_VOID(check_rank(node, 3, 1, 1));
    FETTLE_TRY_VOID(common_dim(node, w[0], shape_of(node, 3)[0], "output channels and zero points"));
  }
  FETTLE_TRY(const Window window, window_of(node));
  FETTLE_TRY_VOID(check_channels(node, w[1] * node.attrs.get_int("group", 1), w[0], nullptr));
  return one_type(kI32, joined({x[0], w[0]}, window.output));
}

Tensors conv_integer(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Window window, window_of(node));
  const auto pad_value = static_cast<double>(node.attrs.get_int("pad_value", 0));
  te::Tensor x = in[0];
  if (has_tensor(in, 2)) {
    x = te::compute(
        x.shape(),
        [&](const std::vector<Var>& i) { return cast(kI32, in[0](to_indices(i))) - cast(kI32, scalar_of(in[2])); },
        "less_zero");
  }
  x = padded(x, window, constant(pad_value, x.dtype()), "conv_pad");
  return one(convolution(node, x, window, [&](const Expr& pixel, const Indices& at) {
    Expr weight = cast(kI32, in[1](at));
    if (has_tensor(in, 3))
      weight = weight - cast(kI32, is_one_number(shape_of(node, 3)) ? scalar_of(in[3]) : in[3](at[0]));
    return cast(kI32, pixel) * weight;
  }));
}

// --- transposed: weights are [input channels, output channels / group, kernel…]

struct Transposed {
  std::vector<int64_t> kernel, strides, dilations;
  Shape before, output;
};

Result<Transposed> read_transposed(const Node& node) {
  FETTLE_TRY_VOID(check_operands(node));
  Transposed t;
  FETTLE_TRY(t.kernel, kernel_of(node));
  const Shape input = spatial(shape_of(node, 0));
  const size_t n = input.size();
  FETTLE_TRY(t.strides, read_list(node, "strides", n, 1, 1));
  FETTLE_TRY(t.dilations, read_list(node, "dilations", n, 1, 1));
  FETTLE_TRY(const auto extra, read_list(node, "output_padding", n, 0, 0));
  FETTLE_TRY(auto pads, read_list(node, "pads", 2 * n, 0, 0));
  const auto stated = node.attrs.get_ints("output_shape");
  if (!stated.empty() && stated.size() != n && stated.size() != n + 2)
    return bad_attribute(node, "output_shape has the wrong length");
  const std::string auto_pad = node.attrs.get_string("auto_pad", "NOTSET");
  for (size_t d = 0; d < n; ++d) {
    const Dim full = (input[d] - 1) * t.strides[d] + ((t.kernel[d] - 1) * t.dilations[d] + 1) + extra[d];
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (same || !stated.empty()) {
      const Dim out = stated.empty() ? input[d] * t.strides[d] : Dim(stated[stated.size() - n + d]);
      const Dim total = full - out;
      // Where more is asked for than there is, the end stays zero.
      const Dim cut = max(total, 0);
      // The larger half goes to the end with SAME_UPPER, to the beginning otherwise.
      t.before.push_back(auto_pad == "SAME_UPPER" ? floordiv(cut, 2) : cut - floordiv(cut, 2));
      t.output.push_back(out);
    } else {
      if (auto_pad == "VALID") pads.assign(2 * n, 0);
      t.before.push_back(pads[d]);
      t.output.push_back(full - pads[d] - pads[n + d]);
    }
    if (t.output[d].max() < 1) return bad_types(node, "the output is empty");
  }
  return t;
}

Types conv_transpose_type(const Node& node) {
  FETTLE_TRY(const Transposed t, read_transposed(node));
  const Shape &x = shape_of(node, 0), &w = shape_of(node, 1);
  const Dim out = w[1] * node.attrs.get_int("group", 1);
  FETTLE_TRY_VOID(check_channels(node, w[0], out, node.input(2)));
  return same_dtype(node, joined({x[0], out}, t.output));
}

//   y[n, oc, o…] = Σ_{ic, k…} x[n, ic, (o + before - k*dilation) / stride] * w[ic, oc, k…]   where the quotient is
//   exact and inside of x.
// Without dilation, only every stride-th k is exact, which one depends on the phase o % stride of the output alone
// (sub-pixel convolution: Shi et al. 2016); without stride, each is:
//   y[n, oc, o…] = Σ_{ic, j…} x[n, ic, o/stride + shift - (taps-1 - j)*dilation] * v[ic, oc, o%stride, j]
//   with shift = (o%stride + before) / stride. Where kernel = stride there is one j. The weights are brought into that
//   order, the last tap first, once, when the model is compiled: what is left is a convolution of a padded image.
//   Where the stride does not divide the kernel, some phases have one tap less: these read zero for their first j, so
//   that loops over taps begin behind it.
struct TransposedDim {
  bool by_phase = false;
  int64_t taps = 1;       // of each output, at most
  Dim low = 0, high = 0;  // zeros around x, by phase
};

// v[ic, oc, phase, j, …] = w[ic, oc, (phase + before) % stride + stride*(taps-1 - j), …], zero beyond the kernel; no
// dim of phases where there is one; dims without phases stay.
te::Tensor weights_by_phase(const te::Tensor& w, const Transposed& t, const std::vector<TransposedDim>& dims) {
  std::vector<Expr> shape{w.dim(0), w.dim(1)};
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].by_phase && t.strides[d] > 1) shape.push_back(t.strides[d]);
    shape.push_back(dims[d].taps);
  }
  return te::compute(
      shape,
      [&](const std::vector<Var>& i) -> te::Body {
        Indices at{i[0], i[1]};
        Expr inside;
        size_t next = 2;
        for (size_t d = 0; d < dims.size(); ++d) {
          if (!dims[d].by_phase) {
            at.push_back(i[next++]);
            continue;
          }
          const int64_t stride = t.strides[d];
          const Expr phase = stride > 1 ? Expr(i[next++]) : Expr(0), j = Expr(dims[d].taps - 1) - i[next++];
          at.push_back(floormod(phase + size_expr(t.before[d]), Expr(stride)) + Expr(stride) * j);
          if (t.kernel[d] % t.strides[d] != 0) inside = logical_and(inside, lt(at.back(), Expr(t.kernel[d])));
        }
        const Expr value = w(std::move(at));
        return is_true(inside) ? value : select(inside, value, constant(0, value.dtype()));
      },
      "weights_by_phase");
}

Tensors conv_transpose(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Transposed t, read_transposed(node));
  const size_t n = t.kernel.size();
  const int64_t group = node.attrs.get_int("group", 1);
  const Expr in_per_group = size_expr(floordiv(shape_of(node, 1)[0], group));
  const Dim out_per_group = shape_of(node, 1)[1];
  std::vector<TransposedDim> dims(n);
  Indices before_x{0, 0}, after_x{0, 0};
  bool pads_x = false, turns_w = false;
  for (size_t d = 0; d < n; ++d) {
    TransposedDim& dim = dims[d];
    const int64_t s = t.strides[d];
    const Dim& before = t.before[d];
    dim.by_phase = (s == 1 || t.dilations[d] == 1) && before.min() >= 0;
    dim.taps = dim.by_phase ? (t.kernel[d] + s - 1) / s : t.kernel[d];
    if (dim.by_phase) {
      const Dim x = shape_of(node, 0)[d + 2], last = t.output[d] - 1;
      dim.low = max((dim.taps - 1) * t.dilations[d] - floordiv(before, s), 0);
      dim.high = max(floordiv(last, s) + floordiv(before + (s - 1), s) - (x - 1), 0);
      turns_w |= !(before == Dim(0)) || t.kernel[d] != s;
    }
    pads_x |= dim.low.max() > 0 || dim.high.max() > 0;
    before_x.push_back(size_expr(dim.low));
    after_x.push_back(size_expr(dim.high));
  }
  const Expr zero = constant(0, in[0].dtype());
  const te::Tensor x = pads_x ? te::pad(in[0], before_x, after_x, zero, "conv_pad") : in[0];
  const te::Tensor w = turns_w ? weights_by_phase(in[1], t, dims) : in[1];
  const te::Tensor sum = te::compute(
      size_exprs(output_shape(node)),
      [&](const std::vector<Var>& i) -> te::Body {
        std::vector<te::ReduceAxis> axes{te::reduce_axis(in_per_group, "ic")};
        const Expr g = group == 1 ? Expr(0) : floordiv(Expr(i[1]), divisor_expr(out_per_group));
        const Expr oc = group == 1 ? Expr(i[1]) : floormod(Expr(i[1]), divisor_expr(out_per_group));
        const Expr ic = g * in_per_group + Expr(axes[0].var);
        Indices at{i[0], ic}, weight{ic, oc};
        Expr inside, exists;
        for (size_t d = 0; d < n; ++d) {
          const Expr stride = t.strides[d], o = i[d + 2];
          Expr j = 0;
          if (!dims[d].by_phase || dims[d].taps > 1) {
            axes.push_back(te::reduce_axis(Expr(dims[d].taps), fmt::format("k{}", d)));
            j = axes.back().var;
          }
          if (dims[d].by_phase) {
            const Expr phase = floormod(o, stride), first = phase + size_expr(t.before[d]);
            const int64_t back = (dims[d].taps - 1) * t.dilations[d];
            at.push_back(floordiv(o, stride) + (t.before[d] == Dim(0) ? Expr(0) : floordiv(first, stride)) +
                         j * Expr(t.dilations[d]) + size_expr(dims[d].low - back));
            if (t.kernel[d] % t.strides[d] != 0)
              exists = logical_and(
                  exists, lt(floormod(first, stride) + stride * (Expr(dims[d].taps - 1) - j), Expr(t.kernel[d])));
            if (t.strides[d] > 1 || !turns_w) weight.push_back(phase);
            if (turns_w) weight.push_back(j);
            continue;
          }
          const Expr place = o + size_expr(t.before[d]) - j * Expr(t.dilations[d]);
          const Expr quotient = floordiv(place, stride);
          if (t.strides[d] > 1) inside = logical_and(inside, eq(floormod(place, stride), Expr(0)));
          inside =
              logical_and(inside, logical_and(le(Expr(0), quotient), lt(quotient, in[0].dim(static_cast<int>(d) + 2))));
          at.push_back(quotient + size_expr(dims[d].low));
          weight.push_back(j);
        }
        Expr pixel = x(std::move(at));
        if (!is_true(exists)) pixel = select(exists, pixel, constant(0, pixel.dtype()));
        Expr product = pixel * w(std::move(weight));
        if (!is_true(inside)) product = select(inside, product, constant(0, product.dtype()));
        return te::sum(product, std::move(axes));
      },
      tensor_name(node), output_axis_names(n));
  return one(with_bias(node, sum, in));
}

constexpr WeightsRule conv_weights{.channel_dim = 0, .output_dim = 1, .takes_bias = true};
constexpr WeightsRule transposed_weights{.channel_dim = 1, .output_dim = 1, .takes_bias = true};
constexpr OpDef conv_defs[] = {
    define(kComplexOutFusable, "Conv", {2, 3}, conv_type, conv,
           {.image = ImageWork::kConvolution, .weights = &conv_weights}),
    define(kComplexOutFusable, "ConvInteger", {2, 4}, conv_integer_type, conv_integer,
           {.image = ImageWork::kConvolution}),
    define(kComplexOutFusable, "ConvTranspose", {2, 3}, conv_transpose_type, conv_transpose,
           {.image = ImageWork::kTransposedConvolution, .weights = &transposed_weights}),
};

}  // namespace

extern constinit const OpFamily conv_ops{"conv", conv_defs};

}  // namespace fettle
