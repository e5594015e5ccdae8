// Pooling: maximum and average, over windows and over all of the spatial dims.

#include <fmt/format.h>

#include "graph/op.h"
#include "graph/op_util.h"
#include "graph/window.h"

namespace fettle {
namespace {

using namespace ops;

Result<Window> window_of(const Node& node) {
  if (rank_of(node, 0) < 3) return bad_types(node, "the input has no spatial dims");
  const Shape& x = shape_of(node, 0);
  return read_window(node, Shape(x.begin() + 2, x.end()), node.attrs.get_ints("kernel_shape"));
}

Types pool_type(const Node& node) {
  FETTLE_TRY(const Window window, window_of(node));
  Shape shape{shape_of(node, 0)[0], shape_of(node, 0)[1]};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  return one_type(dtype_of(node, 0), std::move(shape));
}

Types global_type(const Node& node) {
  if (rank_of(node, 0) < 3) return bad_types(node, "the input has no spatial dims");
  Shape shape = shape_of(node, 0);
  std::fill(shape.begin() + 2, shape.end(), Dim(1));
  return one_type(dtype_of(node, 0), std::move(shape));
}

using Reduce = te::Reduction (*)(Expr, std::vector<te::ReduceAxis>);

te::Tensor over_windows(const Node& node, const te::Tensor& x, const Window& window, Reduce reduce) {
  return te::compute(
      shape_exprs(output_shape(node)),
      [&](const std::vector<Var>& i) -> te::Body {
        std::vector<te::ReduceAxis> axes;
        Indices at{i[0], i[1]};
        for (size_t d = 0; d < window.n_dims(); ++d) {
          axes.push_back(te::reduce_axis(Expr(window.kernel[d]), fmt::format("k{}", d)));
          at.push_back(i[d + 2] * Expr(window.strides[d]) + axes.back() * Expr(window.dilations[d]));
        }
        return reduce(x(std::move(at)), std::move(axes));
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
  const int64_t low = include_pad ? -window.before[d] : 0;
  const int64_t high = window.input[d].value() + (include_pad ? window.stated_after[d] : 0);
  const Expr start = o * Expr(window.strides[d]) - Expr(window.before[d]);
  const Expr step = window.dilations[d];
  const Expr first = max(floordiv(Expr(low) - start + step - Expr(1), step), Expr(0));
  const Expr last = min(floordiv(Expr(high - 1) - start, step), Expr(window.kernel[d] - 1));
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
      const bool inside =
          window.after[d] <= (include_pad ? window.stated_after[d] : 0) && (include_pad || window.before[d] == 0);
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

te::Tensor over_all(const Node& node, const te::Tensor& x, Reduce reduce) {
  return te::compute(
      shape_exprs(output_shape(node)),
      [&](const std::vector<Var>& i) -> te::Body {
        std::vector<te::ReduceAxis> axes;
        Indices at{i[0], i[1]};
        for (int d = 2; d < x.rank(); ++d) {
          axes.push_back(te::reduce_axis(x.dim(d), fmt::format("k{}", d - 2)));
          at.push_back(axes.back());
        }
        return reduce(x(std::move(at)), std::move(axes));
      },
      tensor_name(node));
}

Tensors global_max(const Node& node, std::span<const te::Tensor> in) { return one(over_all(node, in[0], te::max)); }

Tensors global_average(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor sum = over_all(node, in[0], te::sum);
  double count = 1;
  for (int d = 2; d < in[0].rank(); ++d) count *= static_cast<double>(*as_int(in[0].dim(d)));
  return one(map_output(node, [&](const Indices& i) { return sum(i) * constant(1 / count, in[0].dtype()); }));
}

constexpr OpDef defs[] = {
    {.name = "MaxPool",
     .fusion = FusionKind::kReduction,
     .infer = pool_type,
     .compute = max_pool,
     .image = ImageWork::kPooling},
    {.name = "AveragePool",
     .fusion = FusionKind::kReduction,
     .infer = pool_type,
     .compute = average_pool,
     .image = ImageWork::kPooling},
    {.name = "GlobalMaxPool",
     .fusion = FusionKind::kReduction,
     .infer = global_type,
     .compute = global_max,
     .image = ImageWork::kGlobalPooling},
    {.name = "GlobalAveragePool",
     .fusion = FusionKind::kReduction,
     .infer = global_type,
     .compute = global_average,
     .image = ImageWork::kGlobalPooling},
};

}  // namespace

extern constinit const OpFamily pool_ops{"pool", defs};

}  // namespace fettle
