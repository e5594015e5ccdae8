// Resize: nearest, linear and cubic.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/late_sizes.h"
#include "graph/ops/resize.h"

namespace fettle {
namespace {

using namespace ops;

/// A number that f32 has as a ratio of whole numbers; nothing for what is too small for that.
std::optional<Scale::Ratio> ratio_of(double scale) {
  int exponent = 0;
  const double fraction = std::frexp(scale, &exponent);  // scale = fraction * 2^exponent
  auto times = static_cast<int64_t>(std::ldexp(fraction, std::numeric_limits<float>::digits));
  int shift = std::numeric_limits<float>::digits - exponent;
  while (shift > 0 && times % 2 == 0) {
    times /= 2;
    --shift;
  }
  if (std::ldexp(static_cast<double>(times), -shift) != scale || shift > 38 || shift < 0) return {};
  return Scale::Ratio{times, int64_t{1} << shift};
}

// In the larger of an output index and an input's extent times one of these, f32 still counts.
constexpr int64_t kSmallRatio = 1024;

constexpr double kMostScale = 1e6;
/// A scale that is data is a whole number over this: what f32 holds exactly.
constexpr int64_t kParts = 1 << 24;

bool is_small(const std::optional<Scale::Ratio>& ratio) {
  return ratio && std::max(ratio->out.value(), ratio->in.value()) <= kSmallRatio;
}

Result<Resized> resized_by_scales(const Node& node, Resized r, const std::vector<int64_t>& axes,
                                  const std::vector<double>& scales) {
  if (scales.size() != axes.size()) return bad_attribute(node, "scales must have one element a dim");
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(axes[k]);
    const double scale = scales[k];
    if (!(scale > 0) || scale > kMostScale) return bad_attribute(node, fmt::format("a scale of {}", scale));
    const Dim in = r.output[d];
    r.scales[d].number = scale;
    if (in.is_number()) {
      // The product in f32, as ONNX Runtime has it: 10 times 0.7 is 7, though 0.7 in f32 is a little less.
      r.output[d] = static_cast<int64_t>(std::floor(static_cast<float>(in.value()) * static_cast<float>(scale)));
      continue;
    }
    const auto ratio = ratio_of(scale);
    if (!is_small(ratio)) continue;  // the output's extent is known by data
    r.output[d] = floordiv(in * ratio->out, ratio->in);
    r.scales[d].ratios = {*ratio};
  }
  return r;
}

// What resize_by_data states: the extents of the output, and where they are data, the scales as ratios.
constexpr const char *kExtentsKey = "extents", *kRatiosKey = "ratios";

Resized resized_by_data(const Node& node, Resized r, const std::vector<int64_t>& axes) {
  const std::vector<Dim> extents = dims_of_attr(node, kExtentsKey), ratios = dims_of_attr(node, kRatiosKey);
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(axes[k]);
    r.output[d] = extents[k];
    if (!ratios.empty()) r.scales[d] = {.number = {}, .ratios = {{ratios[k], ratios[axes.size() + k]}}};
  }
  return r;
}

Result<Resized> resized_to_sizes(const Node& node, Resized r, const std::vector<int64_t>& axes, const Shape& sizes) {
  if (sizes.size() != axes.size()) return bad_attribute(node, "neither scales nor sizes fit the input");
  const std::string policy = node.attrs.get_string("keep_aspect_ratio_policy", "stretch");
  const bool is_least = policy == "not_larger";
  Scale common{.number = std::nullopt, .ratios = {}, .is_least = is_least};
  for (size_t k = 0; k < axes.size(); ++k) {
    const Dim& in = r.output[static_cast<size_t>(axes[k])];
    if (sizes[k] == in) {
      common.ratios.push_back({1, 1});
      continue;
    }
    if (in.max() < 1 || sizes[k].max() < 0) return bad_attribute(node, "an extent is negative or zero");
    note_not_negative(node, in - min(sizes[k], 1), "what is resized to given sizes");
    common.ratios.push_back({sizes[k], in});
  }
  const Shape input = r.output;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<size_t>(axes[k]);
    if (policy != "not_larger" && policy != "not_smaller") {
      r.scales[d].ratios = {common.ratios[k]};
      r.output[d] = sizes[k];
      continue;
    }
    // Rounded to the nearest: all extents are by the same scale what they were.
    std::optional<Dim> out;
    for (const auto& [to, from] : common.ratios) {
      const Dim next = from == input[d] ? to : from == to ? input[d] : floordiv(input[d] * to * 2 + from, from * 2);
      out = !out ? next : is_least ? min(*out, next) : max(*out, next);
    }
    r.scales[d] = common;
    r.output[d] = *out;
  }
  // Numbers are scales by themselves.
  for (const int64_t axis : axes) {
    Scale& scale = r.scales[static_cast<size_t>(axis)];
    const auto value = [](const Scale::Ratio& x) {
      return static_cast<double>(x.out.value()) / static_cast<double>(x.in.value());
    };
    if (!std::ranges::all_of(scale.ratios, [](const auto& x) { return x.out.is_number() && x.in.is_number(); }))
      continue;
    for (const Scale::Ratio& ratio : scale.ratios)
      scale.number = !scale.number ? value(ratio)
                     : is_least    ? std::min(*scale.number, value(ratio))
                                   : std::max(*scale.number, value(ratio));
    scale.ratios.clear();
  }
  return r;
}

bool has_scales(const Node& node) { return has_input(node, 2) && !(element_count(shape_of(node, 2)) == Dim(0)); }

}  // namespace

namespace ops {

Result<Resized> resized(const Node& node) {
  const Shape& in = shape_of(node, 0);
  Resized r{in, std::vector<Scale>(in.size(), Scale{.number = 1, .ratios = {}, .is_least = false})};
  std::vector<int64_t> axes = node.attrs.get_ints("axes");
  if (axes.empty()) axes = first_numbers(in.size());
  for (int64_t& axis : axes) {
    FETTLE_TRY(axis, positive_axis(node, axis, rank_of(node, 0)));
    r.scales[static_cast<size_t>(axis)] = {};
  }
  FETTLE_TRY(const auto scales, floats_param(node, 2, "scales"));
  if (scales && !scales->empty()) {
    FETTLE_TRY(r, resized_by_scales(node, std::move(r), axes, *scales));
  }
  if (node.attrs.has(kExtentsKey)) return resized_by_data(node, std::move(r), axes);
  if (scales && !scales->empty()) return r;
  FETTLE_TRY(const auto sizes, dims_param(node, 3, "sizes"));
  return resized_to_sizes(node, std::move(r), axes, sizes.value_or(Shape()));
}

bool scales_are_data(const Node& node) {
  if (node.attrs.has(kExtentsKey)) return false;
  if (has_scales(node) && !node.inputs[2]->is_constant()) return true;
  const auto scales = floats_param(node, 2, "scales");
  if (!scales || !*scales) return false;
  const auto axes = node.attrs.get_ints("axes", first_numbers(shape_of(node, 0).size()));
  for (size_t k = 0; k < std::min(axes.size(), (*scales)->size()); ++k) {
    const auto axis = positive_axis(node, axes[k], rank_of(node, 0));
    const double scale = (**scales)[k];
    if (axis && !shape_of(node, 0)[static_cast<size_t>(*axis)].is_number() && scale > 0 && !is_small(ratio_of(scale)))
      return true;
  }
  return false;
}

void require_scales(passes::Lowering& g, const Node& node, Value* scales) {
  g.require_all(g("And", {g("Greater", {scales, g.number(1.0 / kParts, kF32)}),
                          g("LessOrEqual", {scales, g.number(kMostScale, kF32)})}),
                fmt::format("Resize \"{}\": a scale is out of range", node.name));
}

std::vector<Dim> scaled_extents(passes::Lowering& g, Value* x, const std::vector<int64_t>& axes, Value* scales) {
  int64_t usual = 1;
  for (const int64_t axis : axes) usual = std::max(usual, x->shape()[static_cast<size_t>(axis)].typical());
  Value* extents = g.cast(g("Gather", {g("Shape", {x}), g.ints(axes)}), kF32);
  extents = g.cast(g("Floor", {g("Mul", {extents, scales})}), kI64);
  g.make_sizes(extents, 0, kMaxDim, usual);
  return g.status() ? *content_of(*extents) : std::vector<Dim>(axes.size(), 1);
}

}  // namespace ops

namespace {

Types resize_type(const Node& node) {
  FETTLE_TRY(Resized r, resized(node));
  const std::string mode = node.attrs.get_string("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic") return bad_attribute(node, "mode is " + mode);
  for (const char* name : {"antialias", "exclude_outside"})  // forms of ResizeByTables
    if (node.attrs.get_int(name, 0)) return bad_attribute(node, fmt::format("{} is not 0", name));
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
  Scale scale;
  Dim in = 1, out = 1;

  bool is_fixed() const { return in.is_number() && out.is_number() && scale.number; }
};

// (times*i + plus) / over of output index i.
struct Place {
  Dim times, plus, over;

  bool is_fixed() const { return times.is_number() && plus.is_number() && over.is_number(); }
  int64_t common() const { return std::gcd(std::gcd(times.value(), plus.value()), over.value()); }
};

/// Products of longer extents could overflow.
constexpr int64_t kMostExact = int64_t{1} << 28;

// The place in the input of an output index, where the scale is a ratio of whole numbers: floats are off by their last
// digit, which is another element where the place lies on one, or halfway between two.
std::optional<Place> exact_place(const Resizing& r) {
  Dim in = r.in, out = r.out;  // of which the scale is the ratio
  if (r.is_fixed()) {
    // Of the output, before it is rounded down.
    const double extent = *r.scale.number * static_cast<double>(r.in.value());
    if (std::abs(extent - static_cast<double>(r.out.value())) > 1e-9 * extent ||
        std::max(r.in.value(), r.out.value()) > kMostExact)
      return {};
  } else {
    if (r.scale.ratios.size() != 1) return {};
    in = r.scale.ratios[0].in;
    out = r.scale.ratios[0].out;
  }
  const Dim is_long = min(max(r.out - 1, 0), 1);  // 0: of one element
  if (r.where == "asymmetric") return Place{in, 0, out};
  if (r.where == "align_corners") {
    // (in - 1) / (scale * in - 1)
    if (exact_quotient(r.in * out, in) == r.out) return Place{(r.in - 1) * is_long, 0, max(r.out - 1, 1)};
    return Place{(r.in - 1) * in * is_long, 0, max(r.in * out - in, 1)};
  }
  Place place{2 * in, in - out, 2 * out};  // (i + 1/2) in/out - 1/2
  if (r.where == "pytorch_half_pixel") place = {place.times * is_long, place.plus * is_long, place.over};
  // What rounding the extent down cuts off goes in halves.
  if (r.where == "half_pixel_symmetric" && !r.is_fixed()) place.plus = place.plus + r.in * out - r.out * in;
  return place;
}

// Products of what an index and an extent are stay below this.
constexpr int64_t kExactInF32 = int64_t{1} << 24;

bool fits_f32(const Place& r, const Dim& out) {
  return r.is_fixed() && out.is_number() &&
         std::max(r.over.value(), r.times.value() * out.value() + std::abs(r.plus.value())) < kExactInF32;
}

Expr over_number(const Expr& x, int64_t over) {
  const bool is_power = (over & (over - 1)) == 0;
  return is_power ? x * constant(1 / static_cast<double>(over), kF32) : x / constant(static_cast<double>(over), kF32);
}

/// What half_pixel_symmetric adds.
template <class T>
T symmetric_offset(const T& in, const T& out, const T& scale, const T& one, const T& half) {
  return in * half * (one - out / (scale * in)) - half;
}

// The place in the input, in f32, of output index i.
Expr coordinate(const Resizing& r, const Expr& i) {
  const auto number = [](double v) { return constant(v, kF32); };
  const auto exact = exact_place(r);
  if (exact && exact->is_fixed() && (fits_f32(*exact, r.out) || !r.is_fixed())) {
    const int64_t common = exact->common();
    const Expr x = cast(kF32, i * Expr(exact->times.value() / common) + Expr(exact->plus.value() / common));
    return over_number(x, exact->over.value() / common);
  }
  if (exact && !r.is_fixed())
    return cast(kF32, i * size_expr(exact->times) + size_expr(exact->plus)) / cast(kF32, divisor_expr(exact->over));
  const Expr x = cast(kF32, i);
  if (r.where == "asymmetric") return x / r.scale.expr();
  if (r.where == "pytorch_half_pixel" && r.out == Dim(1)) return number(0);
  Expr offset = number(-0.5);
  if (r.is_fixed()) {
    const auto in = static_cast<double>(r.in.value()), out = static_cast<double>(r.out.value());
    const double scale = *r.scale.number, extent = scale * in;
    if (r.where == "align_corners") return extent == 1 ? number(0) : x * number((in - 1) / (extent - 1));
    if (r.where == "half_pixel_symmetric") offset = number(symmetric_offset(in, out, scale, 1.0, 0.5));
  } else {
    const Expr in = cast(kF32, divisor_expr(r.in)), out = cast(kF32, size_expr(r.out)), scale = r.scale.expr();
    const Expr extent = scale * in, one = number(1);
    if (r.where == "align_corners") return select(eq(extent, one), number(0), x * (in - one) / (extent - one));
    if (r.where == "half_pixel_symmetric") offset = symmetric_offset(in, out, scale, one, number(0.5));
  }
  const Expr place = (x + number(0.5)) / r.scale.expr() + offset;
  if (r.where != "pytorch_half_pixel" || !may_equal(r.out, 1)) return place;
  return select(eq(size_expr(r.out), Expr(1)), number(0), place);
}

// The last element.
Expr last_of(const Resizing& r) { return size_expr(r.in - 1); }

// The element at a place, or next to it by the rounding that is asked for.
Expr rounded_place(const Resizing& r, Place place, const Expr& i) {
  if (r.rounding == "ceil") {
    place.plus = place.plus + place.over - 1;
  } else if (r.rounding != "floor") {
    place = {2 * place.times, 2 * place.plus + place.over, 2 * place.over};
    if (r.rounding == "round_prefer_floor") place.plus = place.plus - 1;
  }
  if (!place.is_fixed() || !r.is_fixed()) {
    const Expr whole = floordiv(i * size_expr(place.times) + size_expr(place.plus), divisor_expr(place.over));
    return clamp(whole, Expr(0), last_of(r));
  }
  // What its factors have in common makes no difference, and no remainder.
  int64_t times = place.times.value(), plus = place.plus.value(), over = place.over.value();
  const int64_t common = std::gcd(times, over);
  times /= common;
  plus = floordiv_int(plus, common);
  over /= common;
  const Expr index = i * Expr(times) + Expr(plus);
  const auto at = [&](int64_t x) { return floordiv_int(x * times + plus, over); };
  // Lanes are known to lie near each other where the quotient is a shift or that of the index itself.
  const bool is_power = (over & (over - 1)) == 0, is_plain = times == 1 && plus == 0;
  const Expr whole = is_power || is_plain || !fits_f32({times, plus, over}, r.out)
                         ? floordiv(index, Expr(over))
                         : cast(kI64, math("floor", {cast(kF32, index) / constant(static_cast<double>(over), kF32)}));
  return at(0) >= 0 && at(r.out.value() - 1) < r.in.value() ? whole : clamp(whole, Expr(0), last_of(r));
}

Expr nearest_index(const Resizing& r, const Expr& i) {
  if (const auto exact = exact_place(r)) return rounded_place(r, *exact, i);
  const Expr x = coordinate(r, i), half = constant(0.5, kF32);
  const Expr rounded = r.rounding == "floor"               ? math("floor", {x})
                       : r.rounding == "ceil"              ? math("ceil", {x})
                       : r.rounding == "round_prefer_ceil" ? math("floor", {x + half})
                                                           : math("ceil", {x - half});
  return clamp(cast(kI64, rounded), Expr(0), last_of(r));
}

struct Tap {
  Expr index, weight;
};

// Two taps for linear, four for cubic interpolation (Keys 1981, with the model's coefficient a).
std::vector<Tap> taps(const Node& node, const Resizing& r, const Expr& i) {
  const auto number = [](double v) { return constant(v, kF32); };
  const Expr x = coordinate(r, i), base = math("floor", {x}), t = x - base;
  const Expr first = cast(kI64, base);
  const auto at = [&](int64_t offset) { return clamp(first + Expr(offset), Expr(0), last_of(r)); };
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
  Resizing dim{.where = node.attrs.get_string("coordinate_transformation_mode", "half_pixel"),
               .rounding = node.attrs.get_string("nearest_mode", "round_prefer_floor"),
               .scale = {}};
  const bool nearest = node.attrs.get_string("mode", "nearest") == "nearest";
  const DType dtype = in[0].dtype();
  return one(map_output(node, [&](const Indices& i) {
    Indices at = i;
    std::vector<std::pair<size_t, std::vector<Tap>>> blended;
    for (size_t d = 0; d < i.size(); ++d) {
      dim.scale = r.scales[d];
      dim.in = shape_of(node, 0)[d];
      dim.out = output_shape(node)[d];
      if (dim.out == Dim(0) || (dim.in == dim.out && dim.scale.is_one())) continue;
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

// --- Resize by scales that are data, or whose products with open extents no whole numbers tell

// The extents are products in f32. A scale is a whole number over a power of two, of at most 2^24.
Result<std::vector<Value*>> resize_by_data(passes::Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  std::vector<int64_t> axes = node.attrs.get_ints("axes", first_numbers(x->shape().size()));
  Attrs attrs = node.attrs;
  Value* scales = node.input(2);
  if (scales && scales->is_constant()) attrs.set("scales", to_doubles(*scales->constant));
  if (const AttrValue* stated = attrs.find("scales")) {
    const auto* list = std::get_if<std::vector<double>>(stated);
    if (!list) return bad_attribute(node, "attribute scales is no list of numbers");
    FETTLE_TRY(ConstantTensor data, to_tensor(*list, kF32, {std::ssize(*list)}));
    scales = g.constant(std::move(data));
  }
  if (!(scales->shape() == Shape{std::ssize(axes)})) return bad_attribute(node, "scales must have one element a dim");
  for (int64_t& axis : axes) {
    FETTLE_TRY(axis, positive_axis(node, axis, rank_of(node, 0)));
  }
  scales = g.cast(scales, kF32);
  const std::vector<Dim> extents = scaled_extents(g, x, axes, scales);
  if (!attrs.has("scales")) {
    require_scales(g, node, scales);
    Value* parts = g.number(kParts, kI64);
    Value* times = g.cast(g("Mul", {g.cast(scales, kF64), g.number(kParts, kF64)}), kI64);
    // The lowest bit of both is what they have in common.
    Value* common = g("Min", {g("BitwiseAnd", {times, g("Neg", {times})}), parts});
    common = g("Max", {common, g.index(1)});
    Value* ratios = g("Concat", {g("Div", {times, common}), g("Div", {parts, common})}, {{{"axis", int64_t{0}}}});
    g.make_sizes(ratios, 1, kMaxDim, 1);
    FETTLE_TRY_VOID(g.status());
    attrs.set(kRatiosKey, dims_attr(*content_of(*ratios)));
  }
  FETTLE_TRY_VOID(g.status());
  attrs.set(kExtentsKey, dims_attr(extents));
  return std::vector{g("Resize", {x}, std::move(attrs))};
}

constexpr OpDef resize_defs[] = {
    passes::by_data<resize_by_data, scales_are_data>(
        define(kInjective, "Resize", {1, 4}, resize_type, resize,
               {.params = kResizeParams, .image = ImageWork::kResampling, .maps_pixels = maps_pixels})),
};

}  // namespace

extern constinit const OpFamily resize_ops{"resize", resize_defs};

}  // namespace fettle
