// Pooling: maximum and average, over windows and over all of the spatial dims.

#include "graph/op_util.h"
#include "graph/window.h"

namespace fettle {
namespace {

using namespace ops;

Result<Window> window_of(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 3));
  return read_window(node, node.attrs.get_ints("kernel_shape"));
}

Types pool_type(const Node& node) {
  FETTLE_TRY(const Window window, window_of(node));
  return same_dtype(node, joined({shape_of(node, 0)[0], shape_of(node, 0)[1]}, window.output));
}

Types global_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 3));
  Shape shape = shape_of(node, 0);
  std::fill(shape.begin() + 2, shape.end(), Dim(1));
  return same_dtype(node, std::move(shape));
}

te::Tensor over_windows(const Node& node, const te::Tensor& x, const Window& window, Reduce reduce) {
  return reduce_over(
      reduce, size_exprs(output_shape(node)), reduce_axes({window.kernel.begin(), window.kernel.end()}),
      [&](const Indices& i, const Indices& k) {
        Indices at{i[0], i[1]};
        for (size_t d = 0; d < window.n_dims(); ++d)
          at.push_back(i[d + 2] * Expr(window.strides[d]) + k[d] * Expr(window.dilations[d]));
        return x(std::move(at));
      },
      tensor_name(node));
}

Tensors max_pool(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Window window, window_of(node));
  const te::Tensor x = padded(in[0], window, te::lowest(in[0].dtype()), "max_pool_pad");
  return one(over_windows(node, x, window, te::max));
}

// Elements that the window at `o` averages in dim d: those inside of the input, or with count_include_pad inside of
// the stated padding.
Expr taps(const Window& window, size_t d, const Expr& o, bool include_pad) {
  const Expr low = size_expr(include_pad ? 0 - window.before[d] : 0);
  const Expr high = size_expr(window.input[d] + (include_pad ? window.stated_after[d] : 0));
  const Expr start = o * Expr(window.strides[d]) - size_expr(window.before[d]);
  const Expr step = window.dilations[d];
  const Expr first = max(floordiv(low - start + step - Expr(1), step), Expr(0));
  const Expr last = min(floordiv(high - Expr(1) - start, step), Expr(window.kernel[d] - 1));
  return last - first + Expr(1);
}

Tensors average_pool(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Window window, window_of(node));
  const bool include_pad = node.attrs.get_int("count_include_pad", 0) != 0;
  const DType dtype = in[0].dtype();
  const te::Tensor x = padded(in[0], window, constant(0, dtype), "average_pool_pad");
  const te::Tensor sum = over_windows(node, x, window, te::sum);
  return one(map_output(node, [&](const Indices& i) {
    int64_t fixed = 1;
    Expr varying;
    for (size_t d = 0; d < window.n_dims(); ++d) {
      const Dim counted = include_pad ? window.stated_after[d] : 0;
      const bool inside = (counted - window.after[d]).min() >= 0 && (include_pad || window.before[d] == Dim(0));
      if (inside) {
        fixed *= window.kernel[d];
      } else {
        const Expr count = taps(window, d, i[d + 2], include_pad);
        varying = varying ? varying * count : count;
      }
    }
    if (!varying) return sum(i) * constant(1.0 / static_cast<double>(fixed), dtype);
    return sum(i) / cast(dtype, varying * Expr(fixed));
  }));
}

std::vector<Expr> pixels(const te::Tensor& x) { return {x.shape().begin() + 2, x.shape().end()}; }

te::Tensor over_all(const Node& node, const te::Tensor& x, Reduce reduce) {
  return reduce_over(
      reduce, size_exprs(output_shape(node)), reduce_axes(pixels(x)),
      [&](const Indices& i, const Indices& k) { return x(joined({i[0], i[1]}, k)); }, tensor_name(node));
}

Tensors global_max(const Node& node, std::span<const te::Tensor> in) { return one(over_all(node, in[0], te::max)); }

Tensors global_average(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor sum = over_all(node, in[0], te::sum);
  const Expr share = inverse_count(pixels(in[0]), in[0].dtype());
  return one(map_output(node, [&](const Indices& i) { return sum(i) * share; }));
}

constexpr OpDef pooling(std::string_view name, ImageWork image, Infer infer, Compute compute) {
  return define(kReduction, name, 1, infer, compute, {.image = image});
}

constexpr OpDef defs[] = {
    pooling("MaxPool", ImageWork::kPooling, pool_type, max_pool),
    pooling("AveragePool", ImageWork::kPooling, pool_type, average_pool),
    pooling("GlobalMaxPool", ImageWork::kGlobalPooling, global_type, global_max),
    pooling("GlobalAveragePool", ImageWork::kGlobalPooling, global_type, global_average),
};

}  // namespace

extern constinit const OpFamily pool_ops{"pool", defs};

}  // namespace fettle
