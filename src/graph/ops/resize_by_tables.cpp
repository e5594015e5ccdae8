// Resize with antialias, exclude_outside or tf_crop_and_resize.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "graph/ops/resize.h"

namespace fettle {
namespace {

using namespace ops;

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
  if (scales_are_data(node)) {
    if (!has_input(node, 2) || !(shape_of(node, 2) == Shape{std::ssize(places)}))
      return bad_attribute(node, "scales must have one element a dim");
    Value* scales = g.cast(node.inputs[2], kF32);
    require_scales(g, node, scales);
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

constexpr OpDef resize_by_tables_defs[] = {
    passes::composite<resize_by_tables>("ResizeByTables", {1, 4}, 1, kResizeParams),
};

}  // namespace

extern constinit const OpFamily resize_by_tables_ops{"resize_by_tables", resize_by_tables_defs};

}  // namespace fettle
