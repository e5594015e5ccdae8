// Images read between their pixels: GridSample, AffineGrid, RoiAlign, DeformConv.

#include <algorithm>

#include <fmt/format.h>

#include "graph/op_util.h"
#include "graph/window.h"

namespace fettle {
namespace {

using namespace ops;

// --- what a place between pixels reads along one axis: some pixels, each with a weight. The pixels of several axes are
// summed over all combinations.

enum class Interpolation : uint8_t { kNearest, kLinear, kCubic };
/// What is read beyond the first and the last pixel.
enum class Beyond : uint8_t { kZeros, kBorder, kReflection };

int64_t tap_count(Interpolation mode) {
  return mode == Interpolation::kNearest ? 1 : mode == Interpolation::kLinear ? 2 : 4;
}

/// Over the points and, as the last dim, the taps.
struct Taps {
  te::Tensor index, weight;
};
using Coordinate = std::function<Expr(const Indices& point)>;

/// An axis of so many pixels, in i64 and as a float.
struct Axis {
  Expr size, extent;
  bool align_corners;
  Axis(const Expr& pixels, DType dtype, bool corners)
      : size(pixels), extent(cast(dtype, pixels)), align_corners(corners) {}

  Expr number(double value) const { return constant(value, extent.dtype()); }
  Expr low() const { return number(align_corners ? 0 : -0.5); }
  Expr length() const { return align_corners ? extent - number(1) : extent; }
  Expr last() const { return extent - number(1); }

  // Mirrored at both ends, as often as it takes.
  Expr reflected(const Expr& x) const {
    const Expr length = max(this->length(), number(1e-30)), period = number(2) * length;
    const Expr from_low = x - low();
    const Expr rest = from_low - period * math("floor", {from_low / period});
    return clamp(low() + min(rest, period - rest), low(), low() + this->length());
  }
  Expr within(const Expr& x, Beyond beyond) const {
    if (beyond == Beyond::kBorder) return clamp(x, number(0), last());
    return beyond == Beyond::kReflection ? reflected(x) : x;
  }
};

// Keys' cubic convolution, a = -0.75
Expr cubic_weight(const Expr& distance) {
  const auto number = [&](double value) { return constant(value, distance.dtype()); };
  const double a = -0.75;
  const Expr &d = distance, near = (number(a + 2) * d - number(a + 3)) * d * d + number(1);
  const Expr far = ((number(a) * d - number(5 * a)) * d + number(8 * a)) * d - number(4 * a);
  return select(le(d, number(1)), near, far);
}

Taps taps_of(const std::vector<Expr>& points, const Coordinate& coordinate, const Axis& axis, Interpolation mode,
             Beyond beyond) {
  const te::Tensor place = te::compute(
      points,
      [&](const std::vector<Var>& i) -> te::Body {
        Expr x = coordinate(to_indices(i));
        if (mode == Interpolation::kNearest) x = math("round", {x});
        // Each neighbour is moved to the border by itself; from two pixels beyond on, all are the last one.
        if (mode == Interpolation::kCubic && beyond == Beyond::kBorder)
          return clamp(x, axis.number(-2), axis.last() + axis.number(2));
        return axis.within(x, beyond);
      },
      "place");
  const std::vector<Expr> shape = with_inserted(points, std::ssize(points), Expr(tap_count(mode)));
  const auto pixel = [&](const Indices& point, const Expr& tap) {  // as a float
    if (mode == Interpolation::kNearest) return math("round", {place(point)});
    const Expr first = math("floor", {place(point)});
    return first + cast(first.dtype(), mode == Interpolation::kCubic ? tap - Expr(1) : tap);
  };
  const auto over_taps = [&](const std::function<Expr(const Indices& point, const Expr& tap)>& f, const char* name) {
    return te::compute(
        shape,
        [&](const std::vector<Var>& i) -> te::Body { return f(Indices(i.begin(), i.end() - 1), Expr(i.back())); },
        name);
  };
  Taps taps;
  taps.index = over_taps(
      [&](const Indices& point, const Expr& tap) {
        const Expr inside = axis.within(pixel(point, tap), beyond);
        // Halves of pixels that a reflection gives round down.
        return clamp(cast(kI64, inside), Expr(0), axis.size - Expr(1));
      },
      "pixel");
  taps.weight = over_taps(
      [&](const Indices& point, const Expr& tap) {
        const Expr p = pixel(point, tap), distance = math("abs", {place(point) - p}), unit = axis.number(1);
        const Expr weight = mode == Interpolation::kNearest  ? unit
                            : mode == Interpolation::kLinear ? unit - distance
                                                             : cubic_weight(distance);
        if (beyond != Beyond::kZeros) return weight;
        return select(logical_and(le(axis.number(0), p), le(p, axis.last())), weight, axis.number(0));
      },
      "weight");
  return taps;
}

// --- GridSample: (X [n, c, d…], grid [n, o…, r]), where the grid's last dim has the last axis first

struct Sampling {
  Interpolation mode;
  Beyond beyond;
};
Result<Sampling> read_sampling(const Node& node) {
  const std::string mode = node.attrs.get_string("mode", "linear");
  const std::string padding = node.attrs.get_string("padding_mode", "zeros");
  Sampling s{};
  if (mode == "linear" || mode == "bilinear")
    s.mode = Interpolation::kLinear;
  else if (mode == "cubic" || mode == "bicubic")
    s.mode = Interpolation::kCubic;
  else if (mode != "nearest")
    return bad_attribute(node, "mode is " + mode);
  if (padding == "border")
    s.beyond = Beyond::kBorder;
  else if (padding == "reflection")
    s.beyond = Beyond::kReflection;
  else if (padding != "zeros")
    return bad_attribute(node, "padding_mode is " + padding);
  return s;
}

Types grid_sample_type(const Node& node) {
  FETTLE_TRY_VOID(read_sampling(node));
  FETTLE_TRY_VOID(check_rank(node, 0, 3));
  FETTLE_TRY_VOID(check_rank(node, 1, rank_of(node, 0), rank_of(node, 0)));
  if (!dtype_of(node, 0).is_float() || !dtype_of(node, 1).is_float())
    return bad_types(node, "an input is not of floats");
  const Shape &x = shape_of(node, 0), &grid = shape_of(node, 1);
  FETTLE_TRY_VOID(common_dim(node, x[0], grid[0], "batches"));
  FETTLE_TRY_VOID(common_dim(node, grid.back(), std::ssize(x) - 2, "coordinates"));
  for (size_t d = 2; d < x.size(); ++d) note_not_negative(node, x[d] - 1, "pixels to read");
  return same_dtype(node, joined({x[0], x[1]}, Shape(grid.begin() + 1, grid.end() - 1)));
}

Tensors grid_sample(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Sampling sampling, read_sampling(node));
  const te::Tensor &x = in[0], &grid = in[1];
  const bool corners = node.attrs.get_int("align_corners", 0) != 0;
  const int n_axes = x.rank() - 2;
  const std::vector<Expr> points(grid.shape().begin(), grid.shape().end() - 1);
  std::vector<Taps> taps;
  for (int d = 0; d < n_axes; ++d) {
    const Axis axis(x.dim(d + 2), grid.dtype(), corners);
    taps.push_back(taps_of(
        points,
        [&](const Indices& point) {
          const Expr g = grid(with_inserted(point, std::ssize(point), Expr(n_axes - 1 - d))) + axis.number(1);
          return corners ? g * axis.number(0.5) * axis.length() : (g * axis.extent - axis.number(1)) * axis.number(0.5);
        },
        axis, sampling.mode, sampling.beyond));
  }
  const std::vector<Expr> counts(static_cast<size_t>(n_axes), Expr(tap_count(sampling.mode)));
  return one(reduce_over(
      te::sum, size_exprs(output_shape(node)), reduce_axes(counts),
      [&](const Indices& i, const Indices& k) {
        Indices at{i[0], i[1]}, point = without(i, 1);
        Expr weight;
        for (size_t d = 0; d < taps.size(); ++d) {
          const Indices tap = with_inserted(point, std::ssize(point), k[d]);
          at.push_back(taps[d].index(tap));
          const Expr w = cast(x.dtype(), taps[d].weight(tap));
          weight = weight ? weight * w : w;
        }
        return x(std::move(at)) * weight;
      },
      tensor_name(node)));
}

// --- AffineGrid: (theta [n, r, r + 1], size [n, c, d…]) → [n, d…, r]: theta · (x, y, …, 1) for each pixel's centre

Types affine_grid_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 3, 3));
  FETTLE_TRY(const auto size, dims_param(node, 1, "size"));
  if (!size || (size->size() != 4 && size->size() != 5))
    return bad_attribute(node, "the size is not of 4 or 5 extents");
  const int64_t n_axes = std::ssize(*size) - 2;
  FETTLE_TRY(const Dim batch, common_dim(node, shape_of(node, 0)[0], (*size)[0], "batches"));
  FETTLE_TRY_VOID(common_dim(node, shape_of(node, 0)[1], n_axes, "rows of theta"));
  FETTLE_TRY_VOID(common_dim(node, shape_of(node, 0)[2], n_axes + 1, "columns of theta"));
  for (const Dim& d : *size)
    if (d.max() < 0) return bad_attribute(node, "an extent is negative");
  return same_dtype(node, joined(joined({batch}, Shape(size->begin() + 2, size->end())), {Dim(n_axes)}));
}
Tensors affine_grid(const Node& node, std::span<const te::Tensor> in) {
  const bool corners = node.attrs.get_int("align_corners", 0) != 0;
  const DType dtype = in[0].dtype();
  const Shape& shape = output_shape(node);
  return one(map_output(node, [&](const Indices& i) {
    const size_t n_axes = shape.size() - 2;
    const auto number = [&](double value) { return constant(value, dtype); };
    Expr sum = in[0](i[0], i.back(), Expr(static_cast<int64_t>(n_axes)));
    for (size_t d = 0; d < n_axes; ++d) {
      const Dim& extent = shape[1 + d];
      const Expr pixel = cast(dtype, i[1 + d]);
      const Expr steps = cast(dtype, divisor_expr(corners ? extent - 1 : extent));
      const Expr centre =
          corners ? pixel * number(2) / steps - number(1) : (number(2) * pixel + number(1)) / steps - number(1);
      sum = sum + in[0](i[0], i.back(), Expr(static_cast<int64_t>(n_axes - 1 - d))) * centre;
    }
    return sum;
  }));
}

// --- RoiAlign: (X [n, c, h, w], rois [r, 4], batches [r]): of each cell of a region, some samples' mean or maximum

Types roi_align_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 4, 4));
  FETTLE_TRY_VOID(check_rank(node, 1, 2, 2));
  FETTLE_TRY_VOID(check_rank(node, 2, 1, 1));
  FETTLE_TRY(const Dim regions, common_dim(node, shape_of(node, 1)[0], shape_of(node, 2)[0], "regions"));
  FETTLE_TRY_VOID(common_dim(node, shape_of(node, 1)[1], 4, "coordinates of a region"));
  const std::string mode = node.attrs.get_string("mode", "avg");
  if (mode != "avg" && mode != "max") return bad_attribute(node, "mode is " + mode);
  const std::string corners = node.attrs.get_string("coordinate_transformation_mode", "half_pixel");
  if (corners != "half_pixel" && corners != "output_half_pixel")
    return bad_attribute(node, "coordinate_transformation_mode is " + corners);
  const int64_t height = node.attrs.get_int("output_height", 1), width = node.attrs.get_int("output_width", 1);
  const int64_t samples = node.attrs.get_int("sampling_ratio", 0);
  if (samples < 1)
    return fail(ErrorCode::E603, "RoiAlign with sampling_ratio 0, where each region has samples by its size",
                node.name);
  if (height < 1 || width < 1 || samples > 4096 || height > kMaxDim || width > kMaxDim)
    return bad_attribute(node, fmt::format("{} x {} cells of {} samples", height, width, samples));
  return same_dtype(node, {regions, shape_of(node, 0)[1], height, width});
}

Tensors roi_align(const Node& node, std::span<const te::Tensor> in) {
  const te::Tensor &x = in[0], &rois = in[1], &batches = in[2];
  const DType dtype = rois.dtype();
  const auto number = [&](double value) { return constant(value, dtype); };
  const bool half = node.attrs.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const Expr scale = number(node.attrs.get_float("spatial_scale", 1)), offset = number(half ? 0.5 : 0);
  const int64_t samples = node.attrs.get_int("sampling_ratio", 0);
  const Expr regions = rois.dim(0);
  // Along one axis: [region, cell, sample, 2]. `first` is the place of the region's start among its coordinates.
  const auto taps = [&](int first, int dim, int64_t cells) {
    const Expr size = x.dim(dim), last = cast(dtype, size) - number(1);
    const std::vector<Expr> points{regions, Expr(cells), Expr(samples)};
    const te::Tensor place = te::compute(
        points,
        [&](const std::vector<Var>& i) -> te::Body {
          const Expr start = rois(Expr(i[0]), Expr(first)) * scale - offset;
          Expr extent = rois(Expr(i[0]), Expr(first + 2)) * scale - offset - start;
          if (!half) extent = max(extent, number(1));
          const Expr cell = extent * number(1 / static_cast<double>(cells));
          const Expr sample = (cast(dtype, Expr(i[2])) + number(0.5)) * number(1 / static_cast<double>(samples));
          return start + (cast(dtype, Expr(i[1])) + sample) * cell;
        },
        "place");
    const auto inner = [&](const Indices& i) { return clamp(place(i), number(0), last); };
    Taps made;
    const std::vector<Expr> shape = with_inserted(points, 3, Expr(2));
    made.index = te::compute(
        shape,
        [&](const std::vector<Var>& i) -> te::Body {
          const Expr low = cast(kI64, inner({i[0], i[1], i[2]}));
          return clamp(low + Expr(i[3]), Expr(0), size - Expr(1));
        },
        "pixel");
    made.weight = te::compute(
        shape,
        [&](const std::vector<Var>& i) -> te::Body {
          const Indices point{i[0], i[1], i[2]};
          const Expr p = place(point), part = inner(point) - math("floor", {inner(point)});
          const Expr weight = select(eq(Expr(i[3]), Expr(0)), number(1) - part, part);
          const Expr beyond = logical_or(lt(p, number(-1)), lt(last + number(1), p));
          return select(beyond, number(0), weight);
        },
        "weight");
    return made;
  };
  const int64_t height = node.attrs.get_int("output_height", 1), width = node.attrs.get_int("output_width", 1);
  const Taps rows = taps(1, 2, height), columns = taps(0, 3, width);
  const bool is_mean = node.attrs.get_string("mode", "avg") == "avg";
  const te::Tensor all = reduce_over(
      is_mean ? te::sum : te::max, size_exprs(output_shape(node)),
      reduce_axes({Expr(samples), Expr(samples), Expr(2), Expr(2)}),
      [&](const Indices& i, const Indices& k) {
        const Indices row{i[0], i[2], k[0], k[2]}, column{i[0], i[3], k[1], k[3]};
        const Expr batch = clamp(cast(kI64, batches(i[0])), Expr(0), x.dim(0) - Expr(1));
        const Expr weight = cast(x.dtype(), rows.weight(row) * columns.weight(column));
        return x(batch, i[1], rows.index(row), columns.index(column)) * weight;
      },
      tensor_name(node));
  if (!is_mean) return one(all);
  const Expr share = constant(1 / static_cast<double>(samples * samples), x.dtype());
  return one(map_output(node, [&](const Indices& i) { return all(i) * share; }));
}

// --- DeformConv: (X [n, c, h, w], W, offsets [n, g * kh * kw * 2, oh, ow], bias, mask [n, g * kh * kw, oh, ow]): a
// convolution of pixels that have moved

struct Deformed {
  Window window;
  int64_t group, offset_group;
};
Result<Deformed> read_deformed(const Node& node) {
  for (const size_t i : {0, 1, 2}) FETTLE_TRY_VOID(check_rank(node, i, 4, 4));
  const auto kernel = static_shape({shape_of(node, 1).begin() + 2, shape_of(node, 1).end()});
  if (!kernel)
    return not_known(node, fmt::format("{}: the kernel extents of the weights {} must be fixed", node.op->name,
                                       to_string(shape_of(node, 1))));
  if (node.attrs.get_ints("kernel_shape", *kernel) != *kernel)
    return bad_attribute(node, "kernel_shape does not fit the weights");
  Deformed d{{}, node.attrs.get_int("group", 1), node.attrs.get_int("offset_group", 1)};
  FETTLE_TRY(d.window, read_window(node, *kernel));
  if (d.group < 1 || d.offset_group < 1) return bad_attribute(node, "group or offset_group is less than one");
  return d;
}

Types deform_conv_type(const Node& node) {
  FETTLE_TRY_VOID(check_same_dtype(node, 0, 2));
  FETTLE_TRY(const Deformed d, read_deformed(node));
  const Shape &x = shape_of(node, 0), &w = shape_of(node, 1), &offsets = shape_of(node, 2);
  const int64_t taps = d.window.kernel[0] * d.window.kernel[1];
  if (!may_divide(d.group, w[0]) || !may_divide(d.offset_group, x[1]))
    return bad_types(node, "groups do not divide the channels");
  note_divides(node, d.group, w[0], "output channels in groups");
  note_divides(node, d.offset_group, x[1], "channels in groups of offsets");
  FETTLE_TRY_VOID(common_dim(node, x[1], w[1] * d.group, "channels of input and weights"));
  FETTLE_TRY_VOID(common_dim(node, x[0], offsets[0], "batches"));
  FETTLE_TRY_VOID(common_dim(node, offsets[1], 2 * taps * d.offset_group, "offsets"));
  for (size_t k = 0; k < 2; ++k)
    FETTLE_TRY_VOID(common_dim(node, offsets[2 + k], d.window.output[k], "offsets and output"));
  if (has_input(node, 3)) {
    FETTLE_TRY_VOID(check_rank(node, 3, 1, 1));
    FETTLE_TRY_VOID(common_dim(node, w[0], shape_of(node, 3)[0], "output channels and bias"));
  }
  if (has_input(node, 4)) {
    FETTLE_TRY_VOID(check_rank(node, 4, 4, 4));
    FETTLE_TRY_VOID(common_dim(node, shape_of(node, 4)[1], taps * d.offset_group, "the mask"));
    for (const size_t k : {0, 2, 3})
      FETTLE_TRY_VOID(common_dim(node, shape_of(node, 4)[k], offsets[k], "mask and offsets"));
  }
  for (const size_t k : {2, 3}) note_not_negative(node, x[k] - 1, "pixels to read");
  return same_dtype(node, joined({x[0], w[0]}, d.window.output));
}

Tensors deform_conv(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Deformed deformed, read_deformed(node));
  const Window& window = deformed.window;
  const te::Tensor &x = in[0], &w = in[1], &offsets = in[2];
  const Expr rows = window.kernel[0], columns = window.kernel[1];
  const std::vector<Expr> out = size_exprs(window.output);
  // [n, group of offsets, kh, kw, oh, ow]
  const std::vector<Expr> points{x.dim(0), Expr(deformed.offset_group), rows, columns, out[0], out[1]};
  const auto tap_of = [&](const Indices& p) { return (p[1] * rows + p[2]) * columns + p[3]; };
  std::vector<Taps> taps;
  for (size_t d = 0; d < 2; ++d)
    taps.push_back(taps_of(
        points,
        [&](const Indices& p) {
          const Expr pixel =
              p[4 + d] * Expr(window.strides[d]) - size_expr(window.before[d]) + p[2 + d] * Expr(window.dilations[d]);
          return cast(x.dtype(), pixel) +
                 offsets(p[0], tap_of(p) * Expr(2) + Expr(static_cast<int64_t>(d)), p[4], p[5]);
        },
        Axis(x.dim(static_cast<int>(2 + d)), x.dtype(), true), Interpolation::kLinear, Beyond::kZeros));
  const Expr per_offset = divisor_expr(floordiv(shape_of(node, 0)[1], deformed.offset_group));
  const te::Tensor moved = reduce_over(
      te::sum, {x.dim(0), x.dim(1), rows, columns, out[0], out[1]}, reduce_axes({Expr(2), Expr(2)}),
      [&](const Indices& i, const Indices& k) {
        const Indices point = with_replaced(i, 1, floordiv(i[1], per_offset));
        const auto tap = [&](size_t d) { return with_inserted(point, 6, k[d]); };
        Expr value = x(i[0], i[1], taps[0].index(tap(0)), taps[1].index(tap(1))) * taps[0].weight(tap(0)) *
                     taps[1].weight(tap(1));
        return has_tensor(in, 4) ? value * in[4](i[0], tap_of(point), i[4], i[5]) : value;
      },
      "moved");
  const Dim in_per_group = shape_of(node, 1)[1], out_per_group = floordiv(shape_of(node, 1)[0], deformed.group);
  const te::Tensor sum = reduce_over(
      te::sum, size_exprs(output_shape(node)), reduce_axes({size_expr(in_per_group), rows, columns}),
      [&](const Indices& i, const Indices& k) {
        const Expr first =
            deformed.group == 1 ? Expr(0) : floordiv(i[1], divisor_expr(out_per_group)) * size_expr(in_per_group);
        return moved(i[0], first + k[0], k[1], k[2], i[2], i[3]) * w(i[1], k[0], k[1], k[2]);
      },
      tensor_name(node));
  if (!has_tensor(in, 3)) return one(sum);
  return one(map_output(node, [&](const Indices& i) { return sum(i) + in[3](i[1]); }));
}

constexpr ParamInput size_param[] = {{1, "size", kDims}};
constexpr OpDef sampling_defs[] = {
    define(kReduction, "GridSample", 2, grid_sample_type, grid_sample),
    define(kInjective, "AffineGrid", {1, 2}, affine_grid_type, affine_grid, {.params = size_param}),
    define(kReduction, "RoiAlign", 3, roi_align_type, roi_align),
    define(kReduction, "DeformConv", {3, 5}, deform_conv_type, deform_conv),
};

}  // namespace

extern constinit const OpFamily sampling_ops{"sampling", sampling_defs};

}  // namespace fettle
