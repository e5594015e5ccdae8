// Resize: nearest, linear and cubic.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "graph/late_sizes.h"
#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;

/// A scale, of output over input: a number, a ratio of whole numbers, or both. Of an open extent that keeps the aspect
/// ratio it is the least or the greatest of several ratios.
struct Scale {
  struct Ratio {
    Dim out, in;
  };
  std::optional<double> number;
  std::vector<Ratio> ratios;  // one: the scale is that, exactly
  bool is_least = false;      // of several ratios, or the greatest

  bool is_one() const { return number ? *number == 1 : ratios.size() == 1 && ratios[0].out == ratios[0].in; }
  Expr expr() const {
    if (number) return constant(*number, kF32);
    Expr scale;
    for (const Ratio& ratio : ratios) {
      const Expr next = cast(kF32, size_expr(ratio.out)) / cast(kF32, divisor_expr(ratio.in));
      scale = !scale ? next : is_least ? min(scale, next) : max(scale, next);
    }
    return scale;
  }
};

struct Resized {
  Shape output;
  std::vector<Scale> scales;  // one a dim
};

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

// Resize(x, roi, scales, sizes)
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

// --- ResizeByTables (Fettle's own): Resize with antialias, exclude_outside or tf_crop_and_resize, by a product along
// each axis. A table has the weights of all elements of the input for all of the output. Where extents, scales or crops
// are not known while compiling, what lies about each place is gathered instead.

struct Filter {
  std::string mode, where, rounding;
  bool antialias, exclude_outside;
  double cubic_a;
};

// Of neighbours `first`, first + 1, …; `part` is how far the place lies beyond its left neighbour: above 0, at most 1.
std::vector<double> filter_weights(const Filter& f, double part, double scale, int64_t& first) {
  if (f.mode == "nearest") {
    const bool right = part == 1                           ? true
                       : f.rounding == "floor"             ? false
                       : f.rounding == "ceil"              ? true
                       : f.rounding == "round_prefer_ceil" ? part >= 0.5
                                                           : part > 0.5;
    return {right ? 0.0 : 1.0, right ? 1.0 : 0.0};
  }
  const double a = f.cubic_a, reach = f.mode == "linear" ? 1 : 2;
  const double shrink = f.antialias ? std::min(scale, 1.0) : 1;
  const auto weight = [&](double x) {
    x = std::abs(x);
    if (f.mode == "linear") return std::max(1 - x, 0.0);
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0.0;
  };
  const auto offset = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
  first += offset;
  std::vector<double> weights;
  for (int64_t k = offset; k < 2 - offset; ++k) weights.push_back(weight((static_cast<double>(k) - part) * shrink));
  if (f.antialias) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& w : weights) w /= sum;
  }
  return weights;
}

/// [in, out], and 1 for each element of the output whose place is beyond the input.
struct Table {
  std::vector<double> weights, beyond;
};

Result<Table> resize_table(const Node& node, const Filter& f, double scale, int64_t in, int64_t out, double start,
                           double end) {
  if (in < 1 || out > (int64_t{1} << 26) / in)
    return fail(ErrorCode::E608, fmt::format("a table for {} elements of {}", out, in), node.name);
  Table t{std::vector<double>(static_cast<size_t>(in * out)), std::vector<double>(static_cast<size_t>(out))};
  const double n = static_cast<double>(in), extent = scale * n;
  for (int64_t o = 0; o < out; ++o) {
    const auto y = static_cast<double>(o);
    double x = (y + 0.5) / scale - 0.5;
    if (f.where == "asymmetric") x = y / scale;
    if (f.where == "align_corners") x = extent == 1 ? 0 : y * (n - 1) / (extent - 1);
    if (f.where == "pytorch_half_pixel" && extent == 1) x = -0.5;
    if (f.where == "half_pixel_symmetric") x += n / 2 * (1 - static_cast<double>(out) / extent);
    if (f.where == "tf_crop_and_resize") {
      const double length = (end - start) * (n - 1);
      x = start * (n - 1) + (extent == 1 ? length / 2 : y * length / (extent - 1));
      if (x < 0 || x > n - 1) t.beyond[static_cast<size_t>(o)] = 1;
    }
    auto first = static_cast<int64_t>(std::ceil(x)) - 1;
    std::vector<double> weights = filter_weights(f, x - static_cast<double>(first), scale, first);
    const auto is_outside = [&](size_t k) {
      return first + static_cast<int64_t>(k) < 0 || first + static_cast<int64_t>(k) >= in;
    };
    if (f.exclude_outside) {
      double sum = 0;
      for (size_t k = 0; k < weights.size(); ++k) sum += is_outside(k) ? 0 : weights[k];
      for (size_t k = 0; k < weights.size(); ++k) weights[k] = is_outside(k) ? 0 : weights[k] / sum;
    }
    for (size_t k = 0; k < weights.size(); ++k) {
      const int64_t place = std::clamp<int64_t>(first + static_cast<int64_t>(k), 0, in - 1);
      t.weights[static_cast<size_t>(place * out + o)] += weights[k];
    }
  }
  return t;
}

bool has_scales(const Node& node) { return has_input(node, 2) && !(element_count(shape_of(node, 2)) == Dim(0)); }

// Scales that are data, or whose products with open extents no whole numbers tell.
bool needs_data(const Node& node) {
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

/// Scales in memory, of these axes of x: each is in a range where the rest can be computed.
void require_range(passes::Lowering& g, const Node& node, Value* scales) {
  g.require_all(g("And", {g("Greater", {scales, g.number(1.0 / kParts, kF32)}),
                          g("LessOrEqual", {scales, g.number(kMostScale, kF32)})}),
                fmt::format("Resize \"{}\": a scale is out of range", node.name));
}
/// The extents times the scales, products in f32, rounded down: sizes.
std::vector<Dim> scaled_extents(passes::Lowering& g, Value* x, const std::vector<int64_t>& axes, Value* scales) {
  int64_t usual = 1;
  for (const int64_t axis : axes) usual = std::max(usual, x->shape()[static_cast<size_t>(axis)].typical());
  Value* extents = g.cast(g("Gather", {g("Shape", {x}), g.ints(axes)}), kF32);
  extents = g.cast(g("Floor", {g("Mul", {extents, scales})}), kI64);
  g.make_sizes(extents, 0, kMaxDim, usual);
  return g.status() ? *content_of(*extents) : std::vector<Dim>(axes.size(), 1);
}

/// One axis that is resized. Of what is not known while compiling there are f64 scalars in memory.
struct Axis {
  size_t d = 0;
  Dim in, out;
  std::optional<double> scale, start, end;
  Value *scale_value = nullptr, *start_value = nullptr, *end_value = nullptr;

  bool is_known() const { return in.is_number() && out.is_number() && scale && start && end; }
  bool is_as_it_was() const { return in == out && scale == 1.0 && start == 0.0 && end == 1.0; }
};

Result<std::vector<Axis>> read_axes(passes::Lowering& g, const Node& node, const Filter& f) {
  Value* x = node.inputs[0];
  const auto rank = static_cast<int64_t>(x->shape().size());
  std::vector<int64_t> places = node.attrs.get_ints("axes");
  if (places.empty()) places = first_numbers(x->shape().size());
  for (int64_t& place : places) {
    FETTLE_TRY(place, positive_axis(node, place, rank));
  }
  const auto of_list = [&](Value* list, size_t k) {
    return g.cast(g.reshape(g.slice(list, 0, static_cast<int64_t>(k), static_cast<int64_t>(k) + 1), {}), kF64);
  };
  const auto is_data = [&](size_t input) { return has_input(node, input) && !node.inputs[input]->is_constant(); };
  std::vector<Axis> axes;
  for (const int64_t place : places)
    axes.push_back({.d = static_cast<size_t>(place), .in = x->shape()[static_cast<size_t>(place)]});
  if (needs_data(node)) {
    if (!has_input(node, 2) || !(shape_of(node, 2) == Shape{std::ssize(places)}))
      return bad_attribute(node, "scales must have one element a dim");
    Value* scales = g.cast(node.inputs[2], kF32);
    require_range(g, node, scales);
    const std::vector<Dim> extents = scaled_extents(g, x, places, scales);
    FETTLE_TRY_VOID(g.status());
    for (size_t k = 0; k < axes.size(); ++k) {
      if (const Value* known = node.inputs[2]; known->is_constant())
        axes[k].scale = known->constant->at(static_cast<int64_t>(k));
      else
        axes[k].scale_value = of_list(scales, k);
      axes[k].out = axes[k].scale == 1.0 ? axes[k].in : extents[k];
    }
  } else {
    FETTLE_TRY(const Resized r, resized(node));
    for (Axis& axis : axes) {
      const Scale& scale = r.scales[axis.d];
      axis.out = r.output[axis.d];
      axis.scale = scale.number;
      if (scale.is_one()) axis.scale = 1;
      if (axis.scale) continue;
      for (const auto& [out, in] : scale.ratios) {
        Value* ratio = g("Div", {g.cast(g.size(out), kF64), g.cast(g.size(max(in, 1)), kF64)});
        axis.scale_value = !axis.scale_value ? ratio : g(scale.is_least ? "Min" : "Max", {axis.scale_value, ratio});
      }
      if (!axis.scale_value) return not_known(node, "Resize needs its scales or the input's extents");
    }
  }
  // Where crops begin and end, as parts of the extents.
  const bool is_crop = f.where == "tf_crop_and_resize";
  const bool has_roi = is_crop && (has_input(node, 1) || node.attrs.has("roi"));
  if (is_crop && !has_roi) return bad_attribute(node, "there is no roi");
  std::optional<std::vector<double>> roi;
  if (is_crop && !is_data(1)) {
    FETTLE_TRY(roi, floats_param(node, 1, "roi"));
  }
  const Dim count = roi ? Dim(std::ssize(*roi)) : is_crop ? element_count(shape_of(node, 1)) : Dim(0);
  if (is_crop && !(count == Dim(2 * std::ssize(axes)))) return bad_attribute(node, "roi must have two elements a dim");
  for (size_t k = 0; k < axes.size(); ++k) {
    Axis& axis = axes[k];
    if (is_crop && !roi) {
      axis.start_value = of_list(node.inputs[1], k);
      axis.end_value = of_list(node.inputs[1], axes.size() + k);
      continue;
    }
    axis.start = roi ? (*roi)[k] : 0;
    axis.end = roi ? (*roi)[axes.size() + k] : 1;
  }
  return axes;
}

/// Along one axis, by the taps about each place: what resize_table says, in memory. `beyond` is set where places may
/// lie beyond the input.
Value* resized_by_taps(passes::Lowering& g, const Filter& f, Value* y, const Axis& axis, double extrapolated) {
  const auto number = [&](double value) { return g.number(value, kF64); };
  const auto whole = [&](const Dim& dim) { return g.cast(g.size(dim), kF64); };
  const auto given = [&](const std::optional<double>& known, Value* value) { return known ? number(*known) : value; };
  const DType work = y->dtype();
  Value *zero = number(0), *one = number(1), *half = number(0.5);
  Value *scale = given(axis.scale, axis.scale_value), *n = whole(axis.in), *extent = g("Mul", {scale, n});
  Value *last = g("Sub", {n, one}), *o = g.cast(g.iota(axis.out), kF64), *is_one = g("Equal", {extent, one});
  // extent - 1, which something is divided by.
  Value* steps = g("Where", {is_one, one, g("Sub", {extent, one})});
  Value* x = g("Sub", {g("Div", {g("Add", {o, half}), scale}), half});
  Value* beyond = nullptr;
  if (f.where == "asymmetric") x = g("Div", {o, scale});
  if (f.where == "align_corners") x = g("Where", {is_one, zero, g("Div", {g("Mul", {o, last}), steps})});
  if (f.where == "pytorch_half_pixel") x = g("Where", {is_one, number(-0.5), x});
  if (f.where == "half_pixel_symmetric")
    x = g("Add", {x, g("Mul", {g("Mul", {n, half}), g("Sub", {one, g("Div", {whole(axis.out), extent})})})});
  if (f.where == "tf_crop_and_resize") {
    Value *start = given(axis.start, axis.start_value), *end = given(axis.end, axis.end_value);
    Value* length = g("Mul", {g("Sub", {end, start}), last});
    Value* along = g("Where", {is_one, g("Mul", {length, half}), g("Div", {g("Mul", {o, length}), steps})});
    x = g("Add", {g("Mul", {start, last}), along});
    beyond = g("Or", {g("Less", {x, zero}), g("Greater", {x, last})});
  }
  Value* first = g("Sub", {g("Ceil", {x}), one});
  Value* part = g("Sub", {x, first});  // above 0, at most 1
  // The taps' distances from `first`: [taps, 1]; and their weights: [taps, out].
  Value *taps = nullptr, *weights = nullptr;
  if (f.mode == "nearest") {
    Value* is_right = f.rounding == "floor"               ? g("Equal", {part, one})
                      : f.rounding == "ceil"              ? g("Greater", {part, zero})
                      : f.rounding == "round_prefer_ceil" ? g("GreaterOrEqual", {part, half})
                                                          : g("Greater", {part, half});
    taps = g.unsqueeze(g.ints({0, 1}), {1});
    weights = g.cast(g("Equal", {taps, g.cast(is_right, kI64)}), kF64);
  } else {
    const double reach = f.mode == "linear" ? 1 : 2, a = f.cubic_a;
    Value* shrink = f.antialias ? g("Min", {scale, one}) : one;
    Value* lowest = g.cast(g("Add", {g("Floor", {g("Div", {number(-reach), shrink})}), one}), kI64);
    Value* count = g("Sub", {g.index(2), g("Mul", {g.index(2), lowest})});
    const Dim n_taps = g.sizes_of(count, 1, kMaxDim).front();
    taps = g.unsqueeze(g("Add", {g.iota(n_taps), lowest}), {1});
    Value* far = g("Abs", {g("Mul", {g("Sub", {g.cast(taps, kF64), part}), shrink})});
    const auto polynomial = [&](std::initializer_list<double> coefficients) {  // the highest power first
      Value* sum = nullptr;
      for (const double c : coefficients) sum = sum ? g("Add", {g("Mul", {sum, far}), number(c)}) : number(c);
      return sum;
    };
    weights =
        f.mode == "linear"
            ? g("Max", {g("Sub", {one, far}), zero})
            : g("Where", {g("LessOrEqual", {far, one}), polynomial({a + 2, -(a + 3), 0, 1}),
                          g("Where", {g("Less", {far, number(2)}), polynomial({a, -5 * a, 8 * a, -4 * a}), zero})});
  }
  const auto normalized = [&](Value* w) { return g("Div", {w, g.reduce("ReduceSum", w, {0}, true)}); };
  if (f.antialias && f.mode != "nearest") weights = normalized(weights);
  Value* places = g("Add", {g.cast(first, kI64), taps});  // [taps, out]
  Value* end = g.size(axis.in);
  if (f.exclude_outside) {
    Value* is_inside = g("And", {g("GreaterOrEqual", {places, g.index(0)}), g("Less", {places, end})});
    weights = normalized(g("Where", {is_inside, weights, zero}));
  }
  places = g("Max", {g("Min", {places, g("Sub", {end, g.index(1)})}), g.index(0)});
  // [… taps, out, …], and the sum over the taps.
  const auto d = static_cast<int64_t>(axis.d), behind = static_cast<int64_t>(y->shape().size()) - d - 1;
  const auto along = [&](Value* list) {
    Shape shape = list->shape();
    shape.insert(shape.end(), static_cast<size_t>(behind), 1);
    return g.reshape(list, std::move(shape));
  };
  Value* read = g("Gather", {y, places}, {{{"axis", d}}});
  y = g.reduce("ReduceSum", g("Mul", {read, along(g.cast(weights, work))}), {d}, false);
  return beyond ? g("Where", {along(beyond), g.number(extrapolated, work), y}) : y;
}

Value* resized_by_table(passes::Lowering& g, Value* y, const Axis& axis, const Table& t, double extrapolated) {
  const int64_t in = axis.in.value(), out = axis.out.value();
  std::vector<int64_t> perm = first_numbers(y->shape().size());
  std::swap(perm[axis.d], perm.back());
  Value* weights = g.constant(to_tensor(t.weights, y->dtype(), {in, out}).value());
  y = g("MatMul", {g.transpose(y, perm), weights});
  if (std::ranges::count(t.beyond, 0) < out) {
    Value* beyond = g.constant(to_tensor(t.beyond, kBool, {out}).value());
    y = g("Where", {beyond, g.number(extrapolated, y->dtype()), y});
  }
  return g.transpose(y, perm);
}

Result<std::vector<Value*>> resize_by_tables(passes::Lowering& g, const Node& node) {
  const Filter f{node.attrs.get_string("mode", "nearest"),
                 node.attrs.get_string("coordinate_transformation_mode", "half_pixel"),
                 node.attrs.get_string("nearest_mode", "round_prefer_floor"),
                 node.attrs.get_int("antialias", 0) != 0,
                 node.attrs.get_int("exclude_outside", 0) != 0,
                 node.attrs.get_float("cubic_coeff_a", -0.75)};
  if (f.mode != "nearest" && f.mode != "linear" && f.mode != "cubic") return bad_attribute(node, "mode is " + f.mode);
  constexpr const char* known[] = {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric",
                                   "asymmetric", "align_corners",      "tf_crop_and_resize"};
  if (std::find(std::begin(known), std::end(known), f.where) == std::end(known))
    return fail(ErrorCode::E603, "Resize with coordinates " + f.where, node.name);
  FETTLE_TRY(std::vector<Axis> axes, read_axes(g, node, f));
  std::ranges::sort(axes, {}, &Axis::d);
  const double extrapolated = node.attrs.get_float("extrapolation_value", 0);
  const DType dtype = dtype_of(node, 0), work = computed_dtype(dtype);
  Value* y = g.cast(node.inputs[0], work);
  for (const Axis& axis : axes) {
    FETTLE_TRY_VOID(g.status());
    if (axis.is_as_it_was()) continue;
    if (!axis.is_known()) {
      note_not_negative(node, axis.in - 1, "what is resized");
      y = resized_by_taps(g, f, y, axis, extrapolated);
      continue;
    }
    FETTLE_TRY(const Table t,
               resize_table(node, f, *axis.scale, axis.in.value(), axis.out.value(), *axis.start, *axis.end));
    y = resized_by_table(g, y, axis, t, extrapolated);
  }
  return std::vector{g.cast(y, dtype)};
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
    require_range(g, node, scales);
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

constexpr ParamInput params[] = {{1, "roi", kFloats}, {2, "scales", kFloats}, {3, "sizes", kDims}};
constexpr OpDef defs[] = {
    passes::by_data<resize_by_data, needs_data>(
        define(kInjective, "Resize", {1, 4}, resize_type, resize,
               {.params = params, .image = ImageWork::kResampling, .maps_pixels = maps_pixels})),
    passes::composite<resize_by_tables>("ResizeByTables", {1, 4}, 1, params),
};

}  // namespace

extern constinit const OpFamily resize_ops{"resize", defs};

}  // namespace fettle
