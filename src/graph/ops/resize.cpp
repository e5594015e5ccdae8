// Resize: nearest and linear.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

struct Resized {
  Shape output;
  std::vector<double> scales;  // output over input, one a dim
};

// Resize(x, roi, scales, sizes)
Result<Resized> resized(const Node& node) {
  const Shape& in = shape_of(node, 0);
  Resized r{in, std::vector<double>(in.size(), 1)};
  std::vector<int64_t> axes = node.attrs.get_ints("axes");
  if (axes.empty()) axes = first_numbers(in.size());
  for (int64_t& axis : axes) {
    FETTLE_TRY(axis, positive_axis(node, axis, rank_of(node, 0)));
  }
  FETTLE_TRY(auto scales, floats_param(node, 2, "scales"));
  if (scales && !scales->empty()) {
    if (scales->size() != axes.size()) return bad_attribute(node, "scales must have one element a dim");
    for (size_t k = 0; k < axes.size(); ++k) {
      const auto d = static_cast<size_t>(axes[k]);
      const double scale = (*scales)[k];
      if (!(scale > 0) || scale > 1e6) return bad_attribute(node, fmt::format("a scale of {}", scale));
      r.scales[d] = scale;
      if (in[d].is_number())
        r.output[d] = static_cast<int64_t>(std::floor(static_cast<double>(in[d].value()) * scale));
      else if (scale == std::floor(scale))
        r.output[d] = in[d] * static_cast<int64_t>(scale);
      else
        r.output[d] = Dim::symbol(fmt::format("floor({} * {})", in[d].to_string(), scale), 0);
    }
    return r;
  }
  FETTLE_TRY(const auto sizes, ints_param(node, 3, "sizes"));
  if (!sizes || sizes->size() != axes.size()) return bad_attribute(node, "neither scales nor sizes fit the input");
  const std::string policy = node.attrs.get_string("keep_aspect_ratio_policy", "stretch");
  std::vector<double> ratios;
  for (size_t k = 0; k < axes.size(); ++k) {
    const Dim& extent = in[static_cast<size_t>(axes[k])];
    if (!extent.is_number()) return not_known(node, "Resize to given sizes needs the input's shape");
    if (extent.value() < 1 || (*sizes)[k] < 0) return bad_attribute(node, "an extent is negative or zero");
    ratios.push_back(static_cast<double>((*sizes)[k]) / static_cast<double>(extent.value()));
  }
  const double common = policy == "not_larger"    ? *std::min_element(ratios.begin(), ratios.end())
                        : policy == "not_smaller" ? *std::max_element(ratios.begin(), ratios.end())
                                                  : 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(axes[k]);
    r.scales[d] = common > 0 ? common : ratios[k];
    r.output[d] = common > 0 ? Dim(std::lround(common * static_cast<double>(in[d].value()))) : Dim((*sizes)[k]);
  }
  return r;
}

Types resize_type(const Node& node) {
  FETTLE_TRY(Resized r, resized(node));
  const std::string mode = node.attrs.get_string("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic") return bad_attribute(node, "mode is " + mode);
  if (node.attrs.get_int("antialias", 0) || node.attrs.get_int("exclude_outside", 0))
    return fail(ErrorCode::E603, "Resize with antialias or exclude_outside", node.name);
  const std::string where = node.attrs.get_string("coordinate_transformation_mode", "half_pixel");
  constexpr const char* known[] = {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric",
                                   "align_corners"};
  if (std::find(std::begin(known), std::end(known), where) == std::end(known))
    return fail(ErrorCode::E603, "Resize with coordinates " + where, node.name);
  return same_dtype(node, std::move(r.output));
}

// One dim that is resized.
struct Resizing {
  std::string where, rounding;
  double scale = 1;
  int64_t in = 1, out = 1;
};

// (times*i + plus) / over of output index i.
struct Ratio {
  int64_t times, plus, over;
};

/// Products of longer extents could overflow.
constexpr int64_t kMostExact = int64_t{1} << 28;

// The place in the input of an output index, where the scale is a ratio of whole numbers: floats are off by their last
// digit, which is another element where the place lies on one, or halfway between two.
std::optional<Ratio> exact_place(const Resizing& r) {
  const double extent = r.scale * static_cast<double>(r.in);  // of the output, before it is rounded down
  if (std::abs(extent - static_cast<double>(r.out)) > 1e-9 * extent || std::max(r.in, r.out) > kMostExact) return {};
  if (r.where == "asymmetric") return Ratio{r.in, 0, r.out};
  if (r.where == "align_corners") return r.out == 1 ? Ratio{0, 0, 1} : Ratio{r.in - 1, 0, r.out - 1};
  if (r.where == "pytorch_half_pixel" && r.out == 1) return Ratio{0, 0, 1};
  return Ratio{2 * r.in, r.in - r.out, 2 * r.out};  // (i + 1/2) in/out - 1/2
}

// Products of what an index and an extent are stay below this.
constexpr int64_t kExactInF32 = int64_t{1} << 24;

bool fits_f32(const Ratio& r, int64_t out) { return std::max(r.over, r.times * out + std::abs(r.plus)) < kExactInF32; }

// The place in the input, in f32, of output index i.
Expr coordinate(const Resizing& r, const Expr& i) {
  const auto number = [](double v) { return constant(v, kF32); };
  if (const auto exact = exact_place(r); exact && fits_f32(*exact, r.out)) {
    const int64_t common = std::gcd(std::gcd(exact->times, exact->plus), exact->over);
    const Expr x = cast(kF32, i * Expr(exact->times / common) + Expr(exact->plus / common));
    const int64_t over = exact->over / common;
    const bool is_power = (over & (over - 1)) == 0;
    return is_power ? x * number(1 / static_cast<double>(over)) : x / number(static_cast<double>(over));
  }
  const Expr x = cast(kF32, i);
  if (r.where == "asymmetric") return x / number(r.scale);
  if (r.where == "align_corners") {
    const double extent = r.scale * static_cast<double>(r.in);
    return extent == 1 ? number(0) : x * number(static_cast<double>(r.in - 1) / (extent - 1));
  }
  if (r.where == "pytorch_half_pixel" && r.out == 1) return number(0);
  Expr offset = number(-0.5);
  if (r.where == "half_pixel_symmetric") {
    const double adjustment = static_cast<double>(r.out) / (r.scale * static_cast<double>(r.in));
    offset = number(static_cast<double>(r.in) / 2 * (1 - adjustment) - 0.5);
  }
  return (x + number(0.5)) / number(r.scale) + offset;
}

// The element at a place, or next to it by the rounding that is asked for.
Expr rounded_place(const Resizing& r, Ratio place, const Expr& i) {
  if (r.rounding == "ceil") {
    place.plus += place.over - 1;
  } else if (r.rounding != "floor") {
    place = {2 * place.times, 2 * place.plus + place.over, 2 * place.over};
    if (r.rounding == "round_prefer_floor") place.plus -= 1;
  }
  // What its factors have in common makes no difference, and no remainder.
  if (const int64_t common = std::gcd(place.times, place.over); common > 1)
    place = {place.times / common, floordiv_int(place.plus, common), place.over / common};
  const Expr index = i * Expr(place.times) + Expr(place.plus);
  const auto at = [&](int64_t x) { return floordiv_int(x * place.times + place.plus, place.over); };
  // Lanes are known to lie near each other where the quotient is a shift or that of the index itself.
  const bool is_power = (place.over & (place.over - 1)) == 0, is_plain = place.times == 1 && place.plus == 0;
  const Expr whole =
      is_power || is_plain || !fits_f32(place, r.out)
          ? floordiv(index, Expr(place.over))
          : cast(kI64, math("floor", {cast(kF32, index) / constant(static_cast<double>(place.over), kF32)}));
  return at(0) >= 0 && at(r.out - 1) < r.in ? whole : clamp(whole, Expr(0), Expr(r.in - 1));
}

Expr nearest_index(const Resizing& r, const Expr& i) {
  if (const auto exact = exact_place(r)) return rounded_place(r, *exact, i);
  const Expr x = coordinate(r, i), half = constant(0.5, kF32);
  const Expr rounded = r.rounding == "floor"               ? math("floor", {x})
                       : r.rounding == "ceil"              ? math("ceil", {x})
                       : r.rounding == "round_prefer_ceil" ? math("floor", {x + half})
                                                           : math("ceil", {x - half});
  return clamp(cast(kI64, rounded), Expr(0), Expr(r.in - 1));
}

struct Tap {
  Expr index, weight;
};

// Two taps for linear, four for cubic interpolation (Keys 1981, with the model's coefficient a).
std::vector<Tap> taps(const Node& node, const Resizing& r, const Expr& i) {
  const auto number = [](double v) { return constant(v, kF32); };
  const Expr x = coordinate(r, i), base = math("floor", {x}), t = x - base;
  const Expr first = cast(kI64, base);
  const auto at = [&](int64_t offset) { return clamp(first + Expr(offset), Expr(0), Expr(r.in - 1)); };
  if (node.attrs.get_string("mode", "nearest") == "linear") return {{at(0), number(1) - t}, {at(1), t}};
  const double a = node.attrs.get_float("cubic_coeff_a", -0.75);
  const auto near = [&](const Expr& d) { return ((d * number(a + 2) - number(a + 3)) * d) * d + number(1); };
  const auto far = [&](const Expr& d) {
    return ((d * number(a) - number(5 * a)) * d + number(8 * a)) * d - number(4 * a);
  };
  return {{at(-1), far(t + number(1))}, {at(0), near(t)}, {at(1), near(number(1) - t)}, {at(2), far(number(2) - t)}};
}

Tensors resize(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Resized r, resized(node));
  Resizing dim{node.attrs.get_string("coordinate_transformation_mode", "half_pixel"),
               node.attrs.get_string("nearest_mode", "round_prefer_floor")};
  const bool nearest = node.attrs.get_string("mode", "nearest") == "nearest";
  const DType dtype = in[0].dtype();
  return one(map_output(node, [&](const Indices& i) {
    Indices at = i;
    std::vector<std::pair<size_t, std::vector<Tap>>> blended;
    for (size_t d = 0; d < i.size(); ++d) {
      dim.scale = r.scales[d];
      dim.in = *as_int(in[0].shape()[d]);
      dim.out = output_shape(node)[d].value();
      if (dim.scale == 1 && dim.in == dim.out) continue;
      if (nearest)
        at[d] = nearest_index(dim, i[d]);
      else
        blended.emplace_back(d, taps(node, dim, i[d]));
    }
    // The sum over all combinations of taps, innermost dim first.
    const std::function<Expr(size_t)> sum = [&](size_t k) -> Expr {
      if (k == blended.size()) return blended.empty() ? in[0](at) : cast(kF32, in[0](at));
      Expr total;
      for (const Tap& tap : blended[k].second) {
        at[blended[k].first] = tap.index;
        const Expr term = sum(k + 1) * tap.weight;
        total = total ? total + term : term;
      }
      return total;
    };
    return cast(dtype, sum(0));
  }));
}

// Of the channels, each pixel is some pixel of the same.
bool maps_pixels(const Node& node) {
  if (node.attrs.get_string("mode", "nearest") != "nearest") return false;
  const Shape &from = shape_of(node, 0), &to = output_shape(node);
  return from.size() > 2 && from[0] == to[0] && from[1] == to[1];
}

constexpr ParamInput params[] = {{1, "roi", kFloats}, {2, "scales", kFloats}, {3, "sizes", kInts}};
constexpr OpDef defs[] = {
    define(kInjective, "Resize", {1, 4}, resize_type, resize,
           {.params = params, .image = ImageWork::kResampling, .maps_pixels = maps_pixels}),
};

}  // namespace

extern constinit const OpFamily resize_ops{"resize", defs};

}  // namespace fettle
