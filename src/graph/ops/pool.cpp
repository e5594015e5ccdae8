// Pooling: maximum, average and norms, over windows and over all of the spatial dims; and what undoes it.

#include "graph/passes/lowering.h"
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

// --- MaxPool that tells places (Fettle's own: MaxPool has one output): of the first of the greatest elements of a
// window, counted through the whole input; with storage_order=1 the last two spatial dims count as if swapped.

Types max_pool_places_type(const Node& node) {
  FETTLE_TRY(auto types, pool_type(node));
  types.push_back({kI64, types[0].shape});
  return types;
}
Tensors max_pool_places(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto values, max_pool(node, in));
  FETTLE_TRY(const Window window, window_of(node));
  const te::Tensor x = padded(in[0], window, te::lowest(in[0].dtype()), "max_pool_pad");
  const bool by_columns = node.attrs.get_int("storage_order", 0) != 0;
  const te::Tensor place = reduce_over(
      te::min, size_exprs(output_shape(node)), reduce_axes({window.kernel.begin(), window.kernel.end()}),
      [&](const Indices& i, const Indices& k) {
        Indices at{i[0], i[1]}, pixel;
        Expr inside;
        for (size_t d = 0; d < window.n_dims(); ++d) {
          at.push_back(i[d + 2] * Expr(window.strides[d]) + k[d] * Expr(window.dilations[d]));
          pixel.push_back(at.back() - size_expr(window.before[d]));
          inside = logical_and(inside, logical_and(le(Expr(0), pixel[d]), lt(pixel[d], size_expr(window.input[d]))));
        }
        std::vector<size_t> order;  // the slowest dim first
        for (size_t d = 0; d < window.n_dims(); ++d) order.push_back(by_columns ? window.n_dims() - 1 - d : d);
        Expr flat = i[0] * in[0].dim(1) + i[1];
        for (const size_t d : order) flat = flat * size_expr(window.input[d]) + pixel[d];
        const Expr is_less = lt(x(at), values[0](i));
        return select(logical_and(inside, logical_not(is_less)), flat, Expr(INT64_MAX));
      },
      "place");
  return std::vector{values[0], place};
}

// --- LpPool, GlobalLpPool: (Σ |x|^p)^(1/p)

Result<int64_t> norm_of(const Node& node) {
  const int64_t p = node.attrs.get_int("p", 2);
  if (p < 1) return bad_attribute(node, "p is less than one");
  return p;
}
te::Tensor powers(const te::Tensor& x, int64_t p) {
  return te::compute(
      x.shape(),
      [&](const std::vector<Var>& i) -> te::Body {
        const Expr size = math("abs", {x(i)});
        return p == 1 ? size : p == 2 ? size * size : math("pow", {size, constant(static_cast<double>(p), x.dtype())});
      },
      "powers");
}
Tensors roots(const Node& node, const te::Tensor& sum, int64_t p) {
  if (p == 1) return one(sum);
  return one(map_output(node, [&](const Indices& i) {
    return p == 2 ? math("sqrt", {sum(i)}) : math("pow", {sum(i), constant(1 / static_cast<double>(p), sum.dtype())});
  }));
}
Types lp_pool_type(const Node& node) {
  FETTLE_TRY_VOID(norm_of(node));
  return pool_type(node);
}
Tensors lp_pool(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Window window, window_of(node));
  FETTLE_TRY(const int64_t p, norm_of(node));
  const te::Tensor x = padded(powers(in[0], p), window, constant(0, in[0].dtype()), "lp_pool_pad");
  return roots(node, over_windows(node, x, window, te::sum), p);
}
Types global_lp_type(const Node& node) {
  FETTLE_TRY_VOID(norm_of(node));
  return global_type(node);
}
Tensors global_lp(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t p, norm_of(node));
  return roots(node, over_all(node, powers(in[0], p), te::sum), p);
}

// --- Col2Im(x [n, c * kernel, blocks], image shape, block shape): sums of blocks that overlap

struct Blocks {
  std::vector<int64_t> strides, dilations, before;
  Shape kernel, image, count;
};
Result<Blocks> read_blocks(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 3, 3));
  FETTLE_TRY(const auto image, dims_param(node, 1, "image_shape"));
  FETTLE_TRY(const auto kernel, dims_param(node, 2, "block_shape"));
  if (!image || !kernel || image->empty() || image->size() != kernel->size())
    return bad_attribute(node, "the shapes of image and blocks differ in length");
  const size_t n = kernel->size();
  Blocks b{.kernel = *kernel, .image = *image};
  FETTLE_TRY(b.strides, read_list(node, "strides", n, 1, 1));
  FETTLE_TRY(b.dilations, read_list(node, "dilations", n, 1, 1));
  FETTLE_TRY(const auto pads, read_list(node, "pads", 2 * n, 0, 0));
  b.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  for (size_t d = 0; d < n; ++d) {
    if (b.kernel[d].max() < 1) return bad_attribute(node, "an extent of the blocks is out of range");
    note_not_negative(node, b.kernel[d] - 1, "an extent of the blocks, less one");
    const Dim room = b.image[d] + pads[d] + pads[n + d] - ((b.kernel[d] - 1) * b.dilations[d] + 1);
    if (room.max() < 0) return bad_types(node, "a block is larger than the image");
    note_not_negative(node, room, "a block in the image");
    b.count.push_back(floordiv(room, b.strides[d]) + 1);
  }
  return b;
}
Types col2im_type(const Node& node) {
  FETTLE_TRY(const Blocks b, read_blocks(node));
  const Dim taps = max(element_count(b.kernel), 1);
  const Shape& x = shape_of(node, 0);
  const Dim channels = floordiv(x[1], taps);
  FETTLE_TRY_VOID(common_dim(node, x[1], channels * taps, "channels in blocks"));
  FETTLE_TRY_VOID(common_dim(node, x[2], element_count(b.count), "blocks"));
  return same_dtype(node, joined({x[0], channels}, b.image));
}
Tensors col2im(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Blocks b, read_blocks(node));
  return one(reduce_over(
      te::sum, size_exprs(output_shape(node)), reduce_axes(size_exprs(b.kernel)),
      [&](const Indices& i, const Indices& k) {
        Expr channel = i[1], block = 0, inside;
        for (size_t d = 0; d < b.kernel.size(); ++d) {
          channel = channel * size_expr(b.kernel[d]) + k[d];
          const Expr place = i[d + 2] + Expr(b.before[d]) - k[d] * Expr(b.dilations[d]), stride = b.strides[d];
          const Expr number = floordiv(place, stride);
          if (b.strides[d] > 1) inside = logical_and(inside, eq(floormod(place, stride), Expr(0)));
          inside = logical_and(inside, logical_and(le(Expr(0), number), lt(number, size_expr(b.count[d]))));
          block = block * size_expr(b.count[d]) + number;
        }
        return select(inside, in[0](i[0], channel, block), constant(0, in[0].dtype()));
      },
      tensor_name(node)));
}

constexpr OpDef pooling(std::string_view name, ImageWork image, Infer infer, Compute compute) {
  return define(kReduction, name, 1, infer, compute, {.image = image});
}

constexpr ParamInput col2im_params[] = {{1, "image_shape", kDims}, {2, "block_shape", kDims}};
constexpr OpDef pool_defs[] = {
    pooling("MaxPool", ImageWork::kPooling, pool_type, max_pool),
    pooling("AveragePool", ImageWork::kPooling, pool_type, average_pool),
    pooling("GlobalMaxPool", ImageWork::kGlobalPooling, global_type, global_max),
    pooling("GlobalAveragePool", ImageWork::kGlobalPooling, global_type, global_average),
    define(kReduction, "MaxPoolWithIndices", 1, max_pool_places_type, max_pool_places, {.n_outputs = 2}),
    define(kReduction, "LpPool", 1, lp_pool_type, lp_pool),
    define(kReduction, "GlobalLpPool", 1, global_lp_type, global_lp),
    define(kReduction, "Col2Im", {1, 3}, col2im_type, col2im, {.params = col2im_params}),
};

}  // namespace

extern constinit const OpFamily pool_ops{"pool", pool_defs};

}  // namespace fettle
