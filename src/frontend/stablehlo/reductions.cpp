// Operators whose regions combine elements: reductions, windows, sorts, scatters, map; and gathers.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"
#include "graph/ops/bodies.h"

namespace fettle::stablehlo {
namespace {

// Parts of operands [first, last).
Values parts_of(const OpImport& o, size_t first, size_t last) {
  Values parts;
  for (size_t i = first; i < std::min(last, o.in.size()); ++i)
    for (Value* part : {o.in[i].re, o.in[i].im})
      if (part) parts.push_back(part);
  return parts;
}

// An operator whose one region is its body, or the one function that it calls.
Result<Tensors> with_body(OpImport& o, std::string_view op, Values inputs, Attrs attrs, bool in_pairs = false) {
  std::vector<Scope> bodies(1);
  if (o.op.name == "stablehlo.custom_call") {
    FETTLE_TRY_VOID(o.element_body_of_call(bodies[0], "body"));
  } else {
    if (o.op.regions.size() != 1) return o.mistaken(fmt::format("it has {} regions", o.op.regions.size()));
    FETTLE_TRY_VOID(o.element_body(bodies[0], "body", o.op.regions[0], in_pairs));
  }
  FETTLE_TRY(const Values made, o.add(op, std::move(inputs), std::move(attrs), o.part_types(), bodies));
  return o.as_results(made);
}

// (operand…, first…): what elements meet in any order, and begin with any number of times.
Result<Tensors> reduce(OpImport& o) {
  if (o.in.empty() || o.in.size() % 2 != 0) return o.mistaken(fmt::format("it has {} operands", o.in.size()));
  return with_body(o, "fettle.Reduce", parts_of(o, 0, o.in.size()),
                   {{"axes", o.ints("dimensions")}, {"any_order", int64_t{1}}});
}

struct Windows {
  Shape extents;
  Ints strides, dilations, base_dilations;
  Shape before = {}, after = {};
};
// Padding is [dim][before, after]; what is missing is 0.
Result<Windows> padded_windows(OpImport& o, Windows w, const Shape& padding, size_t rank) {
  for (size_t d = 0; d < rank; ++d) {
    w.before.push_back(2 * d < padding.size() ? padding[2 * d] : 0);
    w.after.push_back(2 * d + 1 < padding.size() ? padding[2 * d + 1] : 0);
  }
  for (const size_t dims : {w.extents.size(), w.strides.size(), w.dilations.size(), w.base_dilations.size()})
    if (dims != rank) return o.mistaken(fmt::format("windows of {} dims, of {}", dims, rank));
  return w;
}
// As attributes have them.
Result<Windows> windows_of(OpImport& o, size_t rank) {
  const Ints ones(rank, 1), extents = o.ints("window_dimensions", ones), padding = o.ints("padding");
  return padded_windows(o,
                        {Shape(extents.begin(), extents.end()), o.ints("window_strides", ones),
                         o.ints("window_dilations", ones), o.ints("base_dilations", ones)},
                        Shape(padding.begin(), padding.end()), rank);
}
// As the operands from `first` on have them: extents, strides, base dilations, dilations, padding.
Result<Windows> dynamic_windows_of(OpImport& o, size_t first, size_t rank) {
  FETTLE_TRY(const Shape extents, sizes_of(o, first));
  FETTLE_TRY(const Ints strides, numbers_of(o, first + 1, "a stride of its windows"));
  FETTLE_TRY(const Ints base_dilations, numbers_of(o, first + 2, "a dilation of its operand"));
  FETTLE_TRY(const Ints dilations, numbers_of(o, first + 3, "a dilation of its windows"));
  FETTLE_TRY(const Shape padding, sizes_of(o, first + 4));
  return padded_windows(o, {extents, strides, dilations, base_dilations}, padding, rank);
}
Attrs attrs_of(const Windows& w) {
  Attrs attrs{{"window", dims_attr(w.extents)}, {"strides", w.strides}, {"dilations", w.dilations}};
  attrs.set("base_dilations", w.base_dilations);
  attrs.set("pads", dims_attr(ops::joined(w.before, w.after)));
  return attrs;
}

/// Windows from an element to the beginning, or to the end, of one axis.
struct Cumulation {
  int64_t axis;
  bool reverse;
};
std::optional<Cumulation> cumulation_of(const Windows& w, const Shape& shape) {
  std::optional<Cumulation> found;
  const Dim one = 1, none = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (w.strides[d] != 1 || w.dilations[d] != 1 || w.base_dilations[d] != 1) return {};
    if (w.extents[d] == one && w.before[d] == none && w.after[d] == none) continue;
    const bool forward = w.before[d] == w.extents[d] - 1 && w.after[d] == none;
    const bool backward = w.after[d] == w.extents[d] - 1 && w.before[d] == none;
    if (found || !(shape[d] == w.extents[d]) || !(forward || backward)) return {};
    found = Cumulation{static_cast<int64_t>(d), backward};
  }
  return found;
}

// (operand…, first…)
Result<Tensors> reduced_windows(OpImport& o, const Windows& w, Values inputs) {
  if (const auto along = cumulation_of(w, o.in[0].re->shape()))
    return with_body(o, "fettle.CumulativeReduce", std::move(inputs),
                     {{"axis", along->axis}, {"reverse", int64_t{along->reverse}}});
  return with_body(o, "fettle.ReduceWindow", std::move(inputs), attrs_of(w));
}
Result<Tensors> reduce_window(OpImport& o) {
  if (o.in.empty() || o.in.size() % 2 != 0 || !o.in[0].re)
    return o.mistaken(fmt::format("it has {} operands", o.in.size()));
  FETTLE_TRY(const Windows w, windows_of(o, o.in[0].re->shape().size()));
  return reduced_windows(o, w, parts_of(o, 0, o.in.size()));
}
// (operand…, first…, extents, strides, base dilations, dilations, padding): as JAX writes it where some are sizes.
Result<Tensors> dynamic_reduce_window(OpImport& o) {
  const size_t windows = 2 * o.op.results.size();
  if (windows == 0 || o.in.size() != windows + 5 || !o.in[0].re)
    return o.mistaken(fmt::format("it has {} operands for {} results", o.in.size(), o.op.results.size()));
  FETTLE_TRY(const Windows w, dynamic_windows_of(o, windows, o.in[0].re->shape().size()));
  return reduced_windows(o, w, parts_of(o, 0, windows));
}

Result<Tensors> select_and_scatter(OpImport& o) {
  if (o.in.size() != 3 || o.op.regions.size() != 2) return o.mistaken("its operands or regions");
  FETTLE_TRY(Value * operand, o.real(0));
  FETTLE_TRY(Value * source, o.real(1));
  FETTLE_TRY(Value * first, o.real(2));
  FETTLE_TRY(const Windows w, windows_of(o, operand->shape().size()));
  std::vector<Scope> bodies(2);
  FETTLE_TRY_VOID(o.element_body(bodies[0], "select", o.op.regions[0]));
  FETTLE_TRY_VOID(o.element_body(bodies[1], "scatter", o.op.regions[1]));
  FETTLE_TRY(const Values made,
             o.add("fettle.SelectAndScatter", {operand, source, first}, attrs_of(w), o.part_types(), bodies));
  return o.as_results(made);
}

Result<Tensors> sort(OpImport& o) {
  const int64_t rank = o.in.empty() || !o.in[0].re ? 0 : o.in[0].re->rank();
  if (rank == 0) return o.in;
  const int64_t axis = o.integer("dimension", -1);
  return with_body(o, "fettle.Sort", parts_of(o, 0, o.in.size()), {{"axis", axis < 0 ? axis + rank : axis}}, true);
}

// The region, of all elements at once, or where it does more than elementwise work of one after the other.
Result<Tensors> map(OpImport& o) {
  if (o.op.regions.size() != 1 || o.in.empty()) return o.mistaken("its region, or its operands");
  FETTLE_TRY(const Shape shape, o.result_shape());
  Scope body;
  FETTLE_TRY_VOID(o.element_body(body, "body", o.op.regions[0]));
  body.graph.sort();
  const Values elements = parts_of(o, 0, o.in.size());
  const std::vector<TensorType> types = o.part_types();
  Node node{.name = o.node.name, .inputs = elements, .provenance = o.node.provenance};
  for (const Scope::Captured& one : body.captured) node.inputs.push_back(one.outside);
  node.bodies.push_back(std::make_shared<Graph>(std::move(body.graph)));
  FETTLE_TRY(const ops::ElementBody inner,
             ops::element_body(node, "body", elements.size(), elements.size(), types.size()));
  Values made = ops::of_elements(o.g.nodes(), inner, elements, shape);
  for (size_t i = 0; i < made.size(); ++i) made[i]->type = types[i];
  return o.as_results(made);
}

// --- windows that indices place

Attrs placed_windows(const Attributes* of, const char* window, const char* collapsed, const char* batch,
                     const char* index_batch, const char* map) {
  Attrs attrs;
  attrs.set("window_dims", field_ints(of, window));
  attrs.set("collapsed_dims", field_ints(of, collapsed));
  attrs.set("batch_dims", field_ints(of, batch));
  attrs.set("index_batch_dims", field_ints(of, index_batch));
  attrs.set("index_map", field_ints(of, map));
  attrs.set("index_vector_dim", field_int(of, "index_vector_dim"));
  return attrs;
}

Result<Tensors> gather_by(OpImport& o, AttrValue sizes) {
  const Attributes* fields = o.fields("dimension_numbers");
  if (!fields) return o.mistaken("it has no dimension_numbers");
  FETTLE_TRY(Value * indices, o.real(1));
  Attrs attrs = placed_windows(fields, "offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                               "start_indices_batching_dims", "start_index_map");
  attrs.set("slice_sizes", std::move(sizes));
  indices = Elements(o).cast(indices, kI64);
  Tensor result{o.g("fettle.Gather", {o.in[0].re, indices}, attrs)};
  if (o.in[0].im) result.im = o.g("fettle.Gather", {o.in[0].im, indices}, attrs);
  return Tensors{result};
}
Result<Tensors> gather(OpImport& o) { return gather_by(o, o.ints("slice_sizes")); }
Result<Tensors> dynamic_gather(OpImport& o) {
  FETTLE_TRY(Value * sizes, o.real(2));
  return gather_by(o, dims_attr(dims_of(o, sizes)));
}

// (operand…, indices, update…)
Result<Tensors> scatter(OpImport& o) {
  const Attributes* fields = o.fields("scatter_dimension_numbers");
  if (!fields) return o.mistaken("it has no scatter_dimension_numbers");
  const size_t n = o.op.results.size();
  if (o.in.size() != 2 * n + 1) return o.mistaken(fmt::format("it has {} operands", o.in.size()));
  FETTLE_TRY(Value * indices, o.real(n));
  Values inputs = parts_of(o, 0, n);
  inputs.push_back(Elements(o).cast(indices, kI64));
  inputs = ops::joined(inputs, parts_of(o, n + 1, o.in.size()));
  return with_body(o, "fettle.Scatter", std::move(inputs),
                   placed_windows(fields, "update_window_dims", "inserted_window_dims", "input_batching_dims",
                                  "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"));
}

constexpr OpEntry kReductions[] = {
    {"stablehlo.custom_call @stablehlo.dynamic_reduce_window", dynamic_reduce_window},
    {"stablehlo.dynamic_gather", dynamic_gather},
    {"stablehlo.gather", gather},
    {"stablehlo.map", map},
    {"stablehlo.reduce", reduce},
    {"stablehlo.reduce_window", reduce_window},
    {"stablehlo.scatter", scatter},
    {"stablehlo.select_and_scatter", select_and_scatter},
    {"stablehlo.sort", sort},
};

}  // namespace

extern constinit const OpEntries reduction_operators{kReductions};

}  // namespace fettle::stablehlo
