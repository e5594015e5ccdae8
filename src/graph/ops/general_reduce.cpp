// Reductions by a graph of the model's own: over axes, over windows, along an axis.
//
// A graph that is one of the operations that Fettle reduces by becomes such a reduction. Any other is folded: a Loop
// goes through what is reduced in row-major order, and combines all that is kept at once. Of elementwise work it is one
// kernel (loop_kernel.h), whose lanes are what is kept.

#include <fmt/format.h>

#include <algorithm>

#include "graph/late_sizes.h"
#include "graph/loop_kernel.h"
#include "graph/ops/bodies.h"
#include "graph/ops/padding.h"
#include "graph/ops/placed_windows.h"
#include "graph/window.h"

namespace fettle {
namespace {

using namespace ops;
using passes::check_attributes;
using passes::LoopBuilder;
using passes::Lowering;

/// Operands of one shape, what each begins with, and how elements of it meet: body(state…, element…) → state….
struct Reduced {
  Values operands, first;  // of one element type each: that of the state
  Shape shape;
  ElementBody body;

  size_t size() const { return operands.size(); }
  DType dtype(size_t i) const { return first[i]->dtype(); }
  /// Of the states, in this shape.
  std::vector<TensorType> types(const Shape& of) const {
    std::vector<TensorType> list;
    for (const Value* value : first) list.push_back({value->dtype(), of});
    return list;
  }
  /// What each operand is reduced by, where all are reduced by known operations, each by itself.
  std::optional<std::vector<Operation>> operations() const {
    std::vector<Operation> list;
    for (size_t i = 0; i < size(); ++i) {
      const auto found = operation_of(body, i, i, size() + i, dtype(i));
      if (!found) return {};
      list.push_back(*found);
    }
    return list;
  }
};

// (operand…, first…, captured…) {body}: as many operands as outputs.
Result<Reduced> read_reduced(Lowering& g, const Node& node) {
  const size_t n = node.outputs.size();
  if (node.inputs.size() < 2 * n || std::ranges::count(node.inputs, nullptr) > 0)
    return bad_attribute(node, fmt::format("it has {} inputs for {} outputs", node.inputs.size(), n));
  FETTLE_TRY(ElementBody body, element_body(node, "body", 2 * n, 2 * n, n));
  Reduced r{{}, {}, shape_of(node, 0), std::move(body)};
  for (size_t i = 0; i < n; ++i) {
    Value* first = node.inputs[n + i];
    if (!(element_count(first->shape()) == Dim(1)))
      return bad_types(node,
                       fmt::format("operand {} begins with {}, not with one element", i, first->type->to_string()));
    const DType dtype = first->dtype();
    FETTLE_TRY_VOID(check_type(node, node.inputs[i], fmt::format("operand {}", i), {dtype_of(node, i), r.shape}));
    r.operands.push_back(g.cast(node.inputs[i], dtype));
    r.first.push_back(first->is_constant() ? g.constant(reshaped(*first->constant, {})) : g.reshape(first, {}));
  }
  return r;
}

// What comes of a known operation beside what it begins with, of the state's type again.
Value* begun(Lowering& g, const Reduced& r, size_t i, const Operation& by, Value* reduced) {
  Value* result = is_neutral(*r.first[i], by.op) ? reduced : g(by.op, {g.cast(r.first[i], by.dtype), reduced});
  return g.cast(result, r.dtype(i));
}

// The loop of so many steps that folds `elements` of its step into states of this shape.
using Elements = std::function<Values(LoopBuilder& loop)>;
struct Fold {
  bool gives_rows = false, before = false;  // rows: the states after each step, or before it
};
Result<Values> folded(Lowering& g, const Reduced& r, const Dim& steps, const Shape& kept, const Elements& elements,
                      const Fold& fold = {}) {
  FETTLE_TRY_VOID(g.status());
  Values first;
  for (Value* value : r.first) first.push_back(g("Expand", {value}, {{{"shape", dims_attr(kept)}}}));
  LoopBuilder loop(g.nodes(), size_value(g.nodes(), steps));
  Values states;
  for (Value* value : first) states.push_back(loop.carry("state", value));
  const Values made = of_elements(loop.body(), captured_by(loop, r.body), joined(states, elements(loop)), kept);
  std::vector<LoopBuilder::Result> left, rows;
  for (size_t i = 0; i < r.size(); ++i) {
    left.push_back({"state", made[i]});
    if (fold.gives_rows) rows.push_back({"row", fold.before ? states[i] : made[i]});
  }
  std::vector<TensorType> types = r.types(kept);
  if (fold.gives_rows) types = joined(types, r.types(with_inserted(kept, 0, steps)));
  Node* made_loop = loop.finish(r.body.node->name + ".fold", left, rows);
  made_loop->attrs.set(std::string(kFoldKey), int64_t{1});
  return typed(made_loop, types);
}

// The fold along one axis of the operands.
Result<Values> folded_along(Lowering& g, const Reduced& r, int64_t axis) {
  const Shape& shape = r.operands[0]->shape();
  return folded(g, r, shape[static_cast<size_t>(axis)], without(shape, axis), [&](LoopBuilder& loop) {
    Values slices;
    for (Value* x : r.operands)
      slices.push_back(loop.body().pick("slice", loop.capture("operand", x), loop.iteration(), axis));
    return slices;
  });
}

/// How a long fold in any order is split, where what is kept fills no vectors: chunks, for threads, of lanes.
struct Split {
  int64_t chunks = 1, lanes = 1;
  int64_t parts() const { return chunks * lanes; }
};
Split split_of(const Shape& shape, int64_t axis) {
  constexpr int64_t kLanes = 16, kChunks = 16, kFewPerLane = 4, kManyPerChunk = 1 << 12;
  const Dim& steps = shape[static_cast<size_t>(axis)];
  const Dim beside = element_count(Shape(shape.begin() + axis + 1, shape.end()));
  const Dim before = element_count(Shape(shape.begin(), shape.begin() + axis));
  if (!steps.is_number() || steps.value() < kLanes * kFewPerLane || beside.typical() >= kLanes) return {};
  const bool few_rows = before.typical() < kChunks && steps.value() >= kChunks * kManyPerChunk;
  return {few_rows ? kChunks : 1, kLanes};
}

// [… steps …] as [… chunks, steps, lanes …], and what each chunk and lane comes to folded again.
Result<Values> folded_in_parts(Lowering& g, Reduced r, int64_t axis, const Split& split) {
  const Shape shape = r.operands[0]->shape();
  const int64_t parts = split.parts(), steps = shape[static_cast<size_t>(axis)].value(),
                each = (steps + parts - 1) / parts;
  Shape before(shape.size(), 0), after(shape.size(), 0);
  after[static_cast<size_t>(axis)] = each * parts - steps;
  Shape parted = with_inserted(with_replaced(shape, axis, split.lanes), axis, each);
  parted = with_inserted(parted, axis, split.chunks);
  for (size_t i = 0; i < r.size(); ++i)
    r.operands[i] = g.reshape(padded(g, r.operands[i], before, after, r.first[i]), parted);
  FETTLE_TRY(const Values made, folded_along(g, r, axis + 1));
  for (size_t i = 0; i < r.size(); ++i) r.operands[i] = g.reshape(made[i], with_replaced(shape, axis, parts));
  return folded_along(g, r, axis);
}

// --- Reduce(operand…, first…, captured…) {axes, any_order} {body}

Result<Values> reduce(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"axes", "any_order"}));
  FETTLE_TRY(Reduced r, read_reduced(g, node));
  FETTLE_TRY(const auto axes, positive_axes(node, node.attrs.get_ints("axes"), std::ssize(r.shape)));
  Values results;
  if (const auto by = r.operations()) {
    for (size_t i = 0; i < r.size(); ++i) {
      Value* x = g.cast(r.operands[i], (*by)[i].dtype);
      results.push_back(begun(g, r, i, (*by)[i], g.reduce(reducer_of((*by)[i].op), x, axes, false)));
    }
    return results;
  }
  // The reduced axes become one: where they lie side by side, nothing moves.
  Shape kept = r.shape;
  std::vector<int64_t> order = axes, others = first_numbers(kept.size());
  Dim steps = 1;
  for (size_t k = axes.size(); k-- > 0;) {
    steps = steps * r.shape[static_cast<size_t>(axes[k])];
    kept = without(kept, axes[k]);
    others = without(others, axes[k]);
  }
  order.insert(order.end(), others.begin(), others.end());
  const bool side_by_side = axes.empty() || axes.back() - axes.front() + 1 == std::ssize(axes);
  const int64_t at = side_by_side && !axes.empty() ? axes.front() : 0;
  for (Value*& x : r.operands) {
    if (!side_by_side) x = g.transpose(x, order);
    x = g.reshape(x, with_inserted(kept, at, steps));
  }
  FETTLE_TRY_VOID(g.status());
  const Split split = node.attrs.get_int("any_order", 0) != 0 ? split_of(r.operands[0]->shape(), at) : Split{};
  return split.parts() > 1 ? folded_in_parts(g, std::move(r), at, split) : folded_along(g, r, at);
}

// --- CumulativeReduce(operand…, first…, captured…) {axis, exclusive, reverse} {body}: what each step along the axis
// comes to, or with `exclusive` what comes before it

Result<Values> cumulate(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"axis", "exclusive", "reverse"}));
  FETTLE_TRY(Reduced r, read_reduced(g, node));
  FETTLE_TRY(const int64_t axis, axis_of(node, 0, std::ssize(r.shape)));
  const bool exclusive = node.attrs.get_int("exclusive", 0) != 0, reverse = node.attrs.get_int("reverse", 0) != 0;
  const auto is_known = [](const Operation& by) { return by.op == "Add" || by.op == "Mul"; };
  Values results;
  if (const auto by = r.operations(); by && std::ranges::all_of(*by, is_known)) {
    for (size_t i = 0; i < r.size(); ++i)
      results.push_back(begun(g, r, i, (*by)[i],
                              g((*by)[i].op == "Add" ? "CumSum" : "CumProd", {g.cast(r.operands[i], (*by)[i].dtype)},
                                {{{"axis", axis}, {"exclusive", int64_t{exclusive}}, {"reverse", int64_t{reverse}}}})));
    return results;
  }
  const Dim steps = r.shape[static_cast<size_t>(axis)];
  const auto slices = [&](LoopBuilder& loop) {
    Value* at = reverse ? loop.backwards() : loop.iteration();
    Values list;
    for (Value* x : r.operands) list.push_back(loop.body().pick("slice", loop.capture("operand", x), at, axis));
    return list;
  };
  FETTLE_TRY(const Values made,
             folded(g, r, steps, without(r.shape, axis), slices, {.gives_rows = true, .before = exclusive}));
  std::vector<int64_t> order = without(first_numbers(r.shape.size()), 0);
  order.insert(order.begin() + axis, 0);
  for (size_t i = 0; i < r.size(); ++i) {
    Value* rows = made[r.size() + i];
    if (reverse) rows = reversed(g, rows, {0});
    results.push_back(axis == 0 ? rows : g.transpose(rows, order));
  }
  return results;
}

// --- windows over all dims

/// Windows over a padded operand.
struct Windows {
  Shape extents;
  std::vector<int64_t> strides, dilations, base_dilations;
  Shape before, after;  // padding, of the dilated operand; negative where it is cut

  Dim elements() const { return element_count(extents); }
  Attrs attrs() const { return {{"window", dims_attr(extents)}, {"strides", strides}, {"dilations", dilations}}; }
};

// An attribute of numbers and sizes, so many, each of at least `least`; all `otherwise` where it is missing.
Result<Shape> read_sizes(const Node& node, const char* name, size_t length, int64_t otherwise, int64_t least) {
  if (!node.attrs.has(name)) return Shape(length, otherwise);
  Shape sizes = dims_of_attr(node, name);
  if (sizes.size() != length) return bad_attribute(node, fmt::format("{} must have {} elements", name, length));
  for (const Dim& size : sizes) {
    if (size.max() < least || (size.is_number() && size.value() > kMaxWindow))
      return bad_attribute(node, fmt::format("{} has the element {}", name, size.to_string()));
    note_not_negative(node, size - least, name);
  }
  return sizes;
}

// What `window`, `strides` and `dilations` say of an operand that is padded already.
Result<Windows> read_windows(const Node& node, size_t rank) {
  Windows w;
  FETTLE_TRY(w.extents, read_sizes(node, "window", rank, 1, 1));
  FETTLE_TRY(w.strides, read_list(node, "strides", rank, 1, 1));
  FETTLE_TRY(w.dilations, read_list(node, "dilations", rank, 1, 1));
  constexpr int64_t kMost = int64_t{1} << 30;
  int64_t count = 1;
  for (const Dim& extent : w.extents) {
    if (!extent.is_number()) continue;
    if (extent.value() > kMost / count) return bad_attribute(node, "a window has too many elements");
    count *= extent.value();
  }
  return w;
}
Result<Windows> read_padded_windows(const Node& node, size_t rank) {
  FETTLE_TRY_VOID(check_attributes(node, {"window", "strides", "dilations", "base_dilations", "pads"}));
  FETTLE_TRY(Windows w, read_windows(node, rank));
  FETTLE_TRY(w.base_dilations, read_list(node, "base_dilations", rank, 1, 1));
  FETTLE_TRY(const Shape pads, read_sizes(node, "pads", 2 * rank, 0, -kMaxDim));
  w.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  w.after.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
  return w;
}

/// Elements that a window reaches over.
Dim span_of(const Windows& w, size_t d) { return (w.extents[d] - 1) * w.dilations[d] + 1; }

/// How many windows there are, of an operand of this shape: none where one is larger than the operand.
Shape window_counts(const Windows& w, const Shape& shape) {
  Shape counts;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Dim room = shape[d] - span_of(w, d);
    counts.push_back(max(floordiv(room, w.strides[d]) + 1, 0));
  }
  return counts;
}

// x with `value` between its elements, around it, and without what is cut off.
Value* in_padding(Lowering& g, const Windows& w, Value* x, Value* value) {
  const int64_t rank = std::ssize(x->shape());
  for (int64_t d = 0; d < rank; ++d) x = dilated(g, x, d, w.base_dilations[static_cast<size_t>(d)], value);
  return padded(g, x, w.before, w.after, value);
}

// WindowElements(x, number) {window, strides, dilations}: of each window, the element of this number. Of Fettle's own.
Types window_elements_type(const Node& node) {
  FETTLE_TRY(const Windows w, read_windows(node, shape_of(node, 0).size()));
  if (!dtype_of(node, 1).is_int() || !(element_count(shape_of(node, 1)) == Dim(1)))
    return bad_types(node, "the number of an element is no integer");
  return same_dtype(node, window_counts(w, shape_of(node, 0)));
}
Tensors window_elements(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Windows w, read_windows(node, shape_of(node, 0).size()));
  return one(map_output(node, [&](const Indices& i) {
    const Expr number = clamp(cast(kI64, scalar_of(in[1])), Expr(0), size_expr(w.elements() - 1));
    Indices at(i.size());
    Dim inner = 1;
    for (size_t d = i.size(); d-- > 0;) {
      const Dim& extent = w.extents[d];
      const Expr k = extent == Dim(1) ? Expr(0) : floormod(floordiv(number, divisor_expr(inner)), divisor_expr(extent));
      at[d] = i[d] * Expr(w.strides[d]) + k * Expr(w.dilations[d]);
      inner = inner * extent;
    }
    return in[0](at);
  }));
}

// WindowReduction(x) {window, strides, dilations, reduction}: over each window, by a known operation. Of Fettle's own.
struct NamedReduce {
  std::string_view op;
  Reduce reduce;
};
constexpr NamedReduce kReduces[] = {{"Add", te::sum}, {"Mul", te::prod}, {"Min", te::min}, {"Max", te::max}};

Types window_reduction_type(const Node& node) {
  FETTLE_TRY(const Windows w, read_windows(node, shape_of(node, 0).size()));
  if (std::ranges::find(kReduces, node.attrs.get_string("reduction", ""), &NamedReduce::op) == std::end(kReduces))
    return bad_attribute(node, "reduction is none of Add, Mul, Min and Max");
  return same_dtype(node, window_counts(w, shape_of(node, 0)));
}
Tensors window_reduction(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Windows w, read_windows(node, shape_of(node, 0).size()));
  const auto by = std::ranges::find(kReduces, node.attrs.get_string("reduction", ""), &NamedReduce::op);
  std::vector<Expr> extents;
  std::vector<size_t> dims;
  for (size_t d = 0; d < w.extents.size(); ++d) {
    if (w.extents[d] == Dim(1)) continue;
    dims.push_back(d);
    extents.push_back(size_expr(w.extents[d]));
  }
  return one(reduce_over(
      by->reduce, size_exprs(output_shape(node)), reduce_axes(extents),
      [&](const Indices& i, const Indices& k) {
        Indices at;
        for (size_t d = 0; d < i.size(); ++d) at.push_back(i[d] * Expr(w.strides[d]));
        for (size_t n = 0; n < dims.size(); ++n) at[dims[n]] = at[dims[n]] + k[n] * Expr(w.dilations[dims[n]]);
        return in[0](std::move(at));
      },
      tensor_name(node)));
}

// Whether MaxPool has these windows: the first two dims have none, and each other has one that is not larger than it.
bool is_max_pool(const Windows& w, const Shape& shape) {
  const Dim one = 1, zero = 0;
  if (shape.size() < 3 || !is_static(w.extents) || !is_static(w.before) || !is_static(w.after)) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (w.base_dilations[d] != 1 || w.before[d].value() < 0 || w.after[d].value() < 0) return false;
    if (d < 2 && !(w.extents[d] == one && w.strides[d] == 1 && w.before[d] == zero && w.after[d] == zero)) return false;
    if ((shape[d] - span_of(w, d)).min() < 0) return false;
  }
  return true;
}
Value* max_pooled(Lowering& g, const Windows& w, Value* x) {
  const auto spatial = [](const auto& list) { return std::decay_t<decltype(list)>(list.begin() + 2, list.end()); };
  return g("MaxPool", {x},
           {{{"kernel_shape", dims_attr(spatial(w.extents))},
             {"strides", spatial(w.strides)},
             {"dilations", spatial(w.dilations)},
             {"pads", dims_attr(joined(spatial(w.before), spatial(w.after)))}}});
}

// --- ReduceWindow(operand…, first…, captured…) {window, strides, dilations, base_dilations, pads} {body}: padding is
// what each operand begins with, and takes part

Result<Values> reduce_window(Lowering& g, const Node& node) {
  FETTLE_TRY(Reduced r, read_reduced(g, node));
  FETTLE_TRY(const Windows w, read_padded_windows(node, r.shape.size()));
  Values results;
  if (const auto by = r.operations()) {
    for (size_t i = 0; i < r.size(); ++i) {
      const Operation& operation = (*by)[i];
      // Truths are 0 and 1.
      const bool is_truth = r.dtype(i).is_bool();
      const std::string_view op = operation.op == "And" ? "Min" : operation.op == "Or" ? "Max" : operation.op;
      const DType inside = is_truth ? kU8 : operation.dtype;
      if (op == "Max" && !is_truth && is_max_pool(w, r.shape)) {
        results.push_back(begun(g, r, i, operation, max_pooled(g, w, g.cast(r.operands[i], inside))));
        continue;
      }
      Value* x = g.cast(in_padding(g, w, r.operands[i], r.first[i]), inside);
      Attrs attrs = w.attrs();
      attrs.set("reduction", std::string(op));
      Value* reduced = g("WindowReduction", {x}, std::move(attrs));
      results.push_back(begun(g, r, i, operation, is_truth ? g.cast(reduced, kBool) : reduced));
    }
    return results;
  }
  for (size_t i = 0; i < r.size(); ++i) r.operands[i] = in_padding(g, w, r.operands[i], r.first[i]);
  FETTLE_TRY_VOID(g.status());
  return folded(g, r, w.elements(), window_counts(w, r.operands[0]->shape()), [&](LoopBuilder& loop) {
    Values elements;
    for (Value* x : r.operands)
      elements.push_back(
          loop.body().value("WindowElements", "elements", {loop.capture("operand", x), loop.iteration()}, w.attrs()));
    return elements;
  });
}

// --- SelectAndScatter(operand, source, first, captured…) {window, strides, dilations, base_dilations, pads} {select,
// scatter}: each window selects one of its elements, the one that `select` keeps before all others; to what is there
// `scatter` brings the window's element of the source. All begin with `first`. Padding is never selected.

Result<Values> select_and_scatter(Lowering& g, const Node& node) {
  if (node.inputs.size() < 3 || std::ranges::count(node.inputs, nullptr) > 0)
    return bad_attribute(node, fmt::format("it has {} inputs", node.inputs.size()));
  FETTLE_TRY(const ElementBody select, element_body(node, "select", 3, 2, 1));
  FETTLE_TRY(const ElementBody scatter, element_body(node, "scatter", 3, 2, 1));
  const Shape shape = shape_of(node, 0);
  const DType dtype = dtype_of(node, 0);
  FETTLE_TRY(const Windows w, read_padded_windows(node, shape.size()));
  if (!(element_count(shape_of(node, 2)) == Dim(1))) return bad_types(node, "it begins with more than one element");
  Value* first = g.reshape(g.cast(node.inputs[2], dtype), {});
  Value* x = in_padding(g, w, node.inputs[0], first);
  Value* places = in_padding(g, w, g.reshape(g.iota(element_count(shape)), shape), g.index(-1));
  FETTLE_TRY_VOID(g.status());
  const Shape counts = window_counts(w, x->shape());
  FETTLE_TRY_VOID(check_type(node, node.inputs[1], "the source", {dtype_of(node, 1), counts}));

  LoopBuilder loop(g.nodes(), size_value(g.nodes(), w.elements()));
  const auto everywhere = [&](Value* value) { return g("Expand", {value}, {{{"shape", dims_attr(counts)}}}); };
  Value* kept = loop.carry("kept", everywhere(first));
  Value* place = loop.carry("place", everywhere(g.index(-1)));
  const auto op = [&](const char* name, Values inputs, Attrs attrs = {}) {
    return loop.body().value(name, "t", std::move(inputs), std::move(attrs));
  };
  const auto next = [&](Value* from) {
    return op("WindowElements", {loop.capture("operand", from), loop.iteration()}, w.attrs());
  };
  Value *element = next(x), *at = next(places), *zero = loop.body().number("zero", 0);
  Value* stays = of_elements(loop.body(), captured_by(loop, select), {kept, element}, counts)[0];
  Value* beats = op("Or", {op("Less", {place, zero}), op("Not", {stays})});
  Value* takes = op("And", {op("GreaterOrEqual", {at, zero}), beats});
  Node* made =
      loop.finish(node.name + ".select",
                  {{"kept", op("Where", {takes, element, kept})}, {"place", op("Where", {takes, at, place})}}, {});
  made->attrs.set(std::string(kFoldKey), int64_t{1});
  Value* chosen = typed(made, {{dtype, counts}, {kI64, counts}})[1];

  // A window of padding alone writes nothing.
  const Dim count = element_count(shape);
  chosen = g("Where", {g("Less", {chosen, g.index(0)}), g.size(count), chosen});
  PlacedWindows one_each;
  one_each.collapsed_dims = one_each.index_map = {0};
  one_each.index_vector_dim = std::ssize(counts);
  Value* begun = g("Expand", {first}, {{{"shape", dims_attr({count})}}});
  FETTLE_TRY_VOID(g.status());
  FETTLE_TRY(const Values result, scattered(g, scatter, {begun}, chosen, {node.inputs[1]}, one_each));
  return Values{g.reshape(result[0], shape)};
}

constexpr std::string_view kSelectAndScatter[] = {"select", "scatter"};

constexpr OpDef general_reduce_defs[] = {
    with_bodies(passes::composite<reduce>("fettle.Reduce", {2, kAny}, -1), kBody),
    with_bodies(passes::composite<cumulate>("fettle.CumulativeReduce", {2, kAny}, -1), kBody),
    with_bodies(passes::composite<reduce_window>("fettle.ReduceWindow", {2, kAny}, -1), kBody),
    with_bodies(passes::composite<select_and_scatter>("fettle.SelectAndScatter", {3, kAny}), kSelectAndScatter),
    define(kInjective, "WindowElements", 2, window_elements_type, window_elements, {.work = kMoves}),
    define(kReduction, "WindowReduction", 1, window_reduction_type, window_reduction),
};

}  // namespace

extern constinit const OpFamily general_reduce_ops{"general_reduce", general_reduce_defs};

}  // namespace fettle
