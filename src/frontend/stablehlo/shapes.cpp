// Constants, and operators that move elements by where they are.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"
#include "graph/ops/padding.h"

namespace fettle::stablehlo {
namespace {

using ops::first_numbers;
using PartFunction = std::function<Result<Value*>(Value* x)>;

// The same of each part of operand 0.
Result<Tensors> of_parts(OpImport& o, const PartFunction& function) {
  Tensor result;
  if (o.in.empty() || !o.in[0].re) return o.mistaken("it has no operand");
  FETTLE_TRY(result.re, function(o.in[0].re));
  if (o.in[0].im) {
    FETTLE_TRY(result.im, function(o.in[0].im));
  }
  return Tensors{result};
}
Value* part_of(const Tensor& tensor, bool imaginary) { return imaginary ? tensor.im : tensor.re; }

// --- constants

Result<Tensors> constant(OpImport& o) {
  const Attribute* attribute = find_attribute(o.op.attributes, "value");
  const auto* value = attribute ? attribute->get_if<DenseElements>() : nullptr;
  if (!value) return o.refuse("its value is no dense tensor");
  const Type& type = o.result_type();
  FETTLE_TRY(const Shape shape, o.result_shape());
  const int64_t count = element_count(shape).value();
  FETTLE_TRY_VOID(check_limit(o.importer.limits(), &Limits::elements, count));
  Tensor result;
  result.quantization = type.element.quantization;
  const int64_t n_parts = type.element.is_complex ? 2 : 1;
  const int64_t given = value->is_splat ? 1 : count;
  if (value->data.n_elems() != given * n_parts)
    return o.mistaken(fmt::format("it has {} elements, not {}", value->data.n_elems(), given * n_parts));
  if (value->data.dtype != type.element.dtype)
    return o.mistaken(fmt::format("its elements are {}", value->data.dtype.to_string()));
  for (int64_t part = 0; part < n_parts; ++part) {
    ConstantTensor data = value->data;
    if (n_parts == 2) {
      FETTLE_TRY(TensorBuilder half, make_tensor(data.dtype, {given}));
      const auto width = static_cast<int64_t>(data.dtype.element_bytes());
      for (int64_t i = 0; i < given; ++i)
        std::memcpy(half.bytes.get() + i * width, data.bytes.get() + (2 * i + part) * width,
                    static_cast<size_t>(width));
      data = std::move(half).finish();
    }
    const auto fixed = static_shape(shape);
    Value* made = o.g.constant(reshaped(data, value->is_splat ? Ints{} : *fixed));
    (part == 0 ? result.re : result.im) = o.expand(made, shape);
  }
  return Tensors{result};
}

Value* iota_of(OpImport& o, const Shape& shape, int64_t axis, DType dtype) {
  Shape along(shape.size(), Dim(1));
  along[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  Value* numbers = Elements(o).cast(o.g.iota(shape[static_cast<size_t>(axis)]), dtype);
  return o.expand(o.g.reshape(numbers, along), shape);
}
Result<Tensors> iota_in(OpImport& o, const Shape& shape) {
  const int64_t axis = o.integer("iota_dimension");
  if (axis < 0 || axis >= std::ssize(shape)) return o.mistaken(fmt::format("iota_dimension is {}", axis));
  Tensor result{iota_of(o, shape, axis, o.result_dtype())};
  if (o.result_type().element.is_complex) result.im = o.expand(o.number(0, o.result_dtype()), shape);
  return Tensors{result};
}
Result<Tensors> iota(OpImport& o) {
  FETTLE_TRY(const Shape shape, o.result_shape());
  return iota_in(o, shape);
}

// The result's shape, where open as an operand of integers tells it.
Result<Shape> shape_by(OpImport& o, size_t operand) {
  if (auto known = o.result_shape()) return *known;
  FETTLE_TRY(Value * integers, o.real(operand));
  const Shape open = dims_of(o, integers);
  FETTLE_TRY_VOID(o.g.status());
  return o.result_shape(0, &open);
}
Result<Tensors> dynamic_iota(OpImport& o) {
  FETTLE_TRY(const Shape shape, shape_by(o, 0));
  return iota_in(o, shape);
}

// --- shapes

Result<Tensors> reshape(OpImport& o) {
  // An open extent is what the others leave.
  FETTLE_TRY(const Shape shape, [&]() -> Result<Shape> {
    auto known = o.result_shape();
    if (known) return known;
    const auto& extents = o.result_type().shape;
    if (std::ranges::count(extents, kDynamic) != 1) return known;
    Shape open(extents.size(), Dim(1));
    Dim rest = 1;
    for (const int64_t extent : extents)
      if (extent != kDynamic) rest = rest * Dim(extent);
    if (rest == Dim(0)) return known;
    open[static_cast<size_t>(std::ranges::find(extents, kDynamic) - extents.begin())] =
        floordiv(element_count(o.in[0].re->shape()), rest);
    return o.result_shape(0, &open);
  }());
  return of_parts(o, [&](Value* x) -> Result<Value*> { return o.g.reshape(x, shape); });
}
Result<Tensors> dynamic_reshape(OpImport& o) {
  FETTLE_TRY(const Shape shape, shape_by(o, 1));
  return of_parts(o, [&](Value* x) -> Result<Value*> { return o.g.reshape(x, shape); });
}

Result<Tensors> broadcast_to(OpImport& o, const Shape& shape) {
  const Ints places = o.ints("broadcast_dimensions");
  return of_parts(o, [&](Value* x) -> Result<Value*> {
    if (places.size() != x->shape().size())
      return o.mistaken(fmt::format("{} broadcast_dimensions of a tensor of rank {}", places.size(), x->rank()));
    Ints order = first_numbers(places.size());
    std::ranges::sort(order, {}, [&](int64_t d) { return places[static_cast<size_t>(d)]; });
    if (order != first_numbers(order.size())) x = o.g.transpose(x, order);
    Shape wide(shape.size(), Dim(1));
    for (size_t k = 0; k < order.size(); ++k) {
      const int64_t place = places[static_cast<size_t>(order[k])];
      if (place < 0 || place >= std::ssize(shape) || (k > 0 && place == places[static_cast<size_t>(order[k - 1])]))
        return o.mistaken(fmt::format("{} in broadcast_dimensions", place));
      wide[static_cast<size_t>(place)] = x->shape()[k];
    }
    return o.expand(o.g.reshape(x, x->shape().empty() ? Shape{} : wide), shape);
  });
}
Result<Tensors> broadcast_in_dim(OpImport& o) {
  // Open extents are those of the operand's.
  const Ints places = o.ints("broadcast_dimensions");
  Shape open(o.result_type().shape.size(), Dim(1));
  if (o.in.empty() || !o.in[0].re) return o.mistaken("it has no operand");
  for (size_t k = 0; k < std::min(places.size(), o.in[0].re->shape().size()); ++k)
    if (places[k] >= 0 && places[k] < std::ssize(open)) open[static_cast<size_t>(places[k])] = o.in[0].re->shape()[k];
  FETTLE_TRY(const Shape shape, o.result_shape(0, &open));
  return broadcast_to(o, shape);
}
Result<Tensors> dynamic_broadcast_in_dim(OpImport& o) {
  FETTLE_TRY(const Shape shape, shape_by(o, 1));
  return broadcast_to(o, shape);
}
// The new dims come first.
Result<Tensors> broadcast(OpImport& o) {
  FETTLE_TRY(const Shape shape, o.result_shape());
  return of_parts(o, [&](Value* x) -> Result<Value*> { return o.expand(x, shape); });
}

Result<Tensors> transpose(OpImport& o) {
  const Ints order = o.ints("permutation");
  return of_parts(o, [&](Value* x) -> Result<Value*> {
    return order == first_numbers(order.size()) ? x : o.g.transpose(x, order);
  });
}
Result<Tensors> reverse(OpImport& o) {
  const Ints axes = o.ints("dimensions");
  return of_parts(o, [&](Value* x) -> Result<Value*> { return axes.empty() ? x : ops::reversed(o.g, x, axes); });
}

Result<Tensors> concatenate(OpImport& o) {
  const int64_t axis = o.integer("dimension");
  Tensor result;
  for (const bool imaginary : {false, true}) {
    Values parts;
    for (const Tensor& tensor : o.in)
      if (Value* part = part_of(tensor, imaginary)) parts.push_back(part);
    if (parts.empty()) continue;
    (imaginary ? result.im : result.re) = parts.size() == 1 ? parts[0] : o.g("Concat", parts, {{{"axis", axis}}});
  }
  return Tensors{result};
}

// --- slices

Value* sliced(OpImport& o, Value* x, const Shape& starts, const Shape& limits, const Ints& strides) {
  Shape begin, end;
  Ints axes, steps;
  for (size_t d = 0; d < starts.size(); ++d) {
    if (starts[d] == Dim(0) && limits[d] == x->shape()[d] && strides[d] == 1) continue;
    begin.push_back(starts[d]);
    end.push_back(limits[d]);
    axes.push_back(static_cast<int64_t>(d));
    steps.push_back(strides[d]);
  }
  if (axes.empty()) return x;
  return o.g("Slice", {x},
             {{{"starts", dims_attr(begin)}, {"ends", dims_attr(end)}, {"axes", axes}, {"steps", steps}}});
}
Result<Tensors> slice(OpImport& o) {
  const Ints starts = o.ints("start_indices"), limits = o.ints("limit_indices"), strides = o.ints("strides");
  return of_parts(o, [&](Value* x) -> Result<Value*> {
    const size_t rank = x->shape().size();
    if (starts.size() != rank || limits.size() != rank || strides.size() != rank)
      return o.mistaken("its indices are not as many as the operand's dims");
    Shape ends(limits.begin(), limits.end());
    for (size_t d = 0; d < rank; ++d) {
      if (starts[d] < 0 || strides[d] < 1 || starts[d] > limits[d]) return o.mistaken("indices or strides");
      if (x->shape()[d].is_number() && limits[d] > x->shape()[d].value())
        return o.mistaken(fmt::format("a limit of {} in an extent of {}", limits[d], x->shape()[d].to_string()));
    }
    return sliced(o, x, Shape(starts.begin(), starts.end()), ends, strides);
  });
}

// Indices of all dims as scalars, or as one list: a list of 64 bits.
Value* index_list(OpImport& o, size_t first) {
  Values parts;
  for (size_t i = first; i < o.in.size(); ++i) parts.push_back(o.g.reshape(Elements(o).cast(o.in[i].re, kI64), {1}));
  return parts.size() == 1 ? parts[0] : o.g("Concat", parts, {{{"axis", int64_t{0}}}});
}

// (operand, start…) {slice_sizes}: what would reach outside begins where it does not.
// Whether a loop's integers are all places along an axis.
bool is_among(const Progression& at, const Dim& extent) {
  return extent.is_number() && at.min() >= 0 && at.max() < extent.value();
}
// In the form of rows that the planner knows: the number of the iteration, or a constant less that.
Value* index_of(OpImport& o, const Progression& at) {
  if (at.step < 0) return o.g("Sub", {o.g.index(at.first), at.number});
  return at.first == 0 ? at.number : o.g("Add", {at.number, o.g.index(at.first)});
}
// Where an update replaces one row of x, of which an iteration tells.
std::optional<RowUpdate> row_update(OpImport& o, const Value* x, Value* update) {
  std::optional<RowUpdate> row;
  for (size_t d = 0; d < x->shape().size(); ++d) {
    if (x->shape()[d] == update->shape()[d]) continue;
    const Progression* at = find_progression(o.importer, o.in[d + 2]);
    if (row || !at || !is_among(*at, x->shape()[d]) || !(update->shape()[d] == Dim(1))) return {};
    row = RowUpdate{x, update, static_cast<int64_t>(d), *at};
  }
  return row;
}

Result<Tensors> dynamic_slice(OpImport& o) {
  const Ints sizes = o.ints("slice_sizes");
  return of_parts(o, [&](Value* x) -> Result<Value*> {
    const Shape shape = x->shape();
    if (sizes.size() != shape.size() || o.in.size() != shape.size() + 1)
      return o.mistaken("its indices are not as many as the operand's dims");
    Values starts;
    Ints moved;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (shape[d] == Dim(sizes[d])) continue;
      FETTLE_TRY(Value * start, o.real(d + 1));
      starts.push_back(Elements(o).cast(o.g.reshape(start, {}), kI64));
      moved.push_back(static_cast<int64_t>(d));
    }
    if (moved.empty()) return x;
    const auto known = [](const Value* start) { return start->is_constant(); };
    if (std::ranges::all_of(starts, known) && is_static(shape)) {
      Shape begin(shape.size(), Dim(0)), end = shape;
      for (size_t k = 0; k < moved.size(); ++k) {
        const auto d = static_cast<size_t>(moved[k]);
        begin[d] = std::clamp<int64_t>(starts[k]->constant->int_at(0), 0, shape[d].value() - sizes[d]);
        end[d] = begin[d] + sizes[d];
      }
      return sliced(o, x, begin, end, Ints(shape.size(), 1));
    }
    // One of many rows is what loops read.
    if (moved.size() == 1 && sizes[static_cast<size_t>(moved[0])] == 1) {
      const auto d = static_cast<size_t>(moved[0]);
      if (const Progression* at = find_progression(o.importer, o.in[d + 1]); at && is_among(*at, shape[d]))
        return o.g.unsqueeze(o.g("Gather", {x, index_of(o, *at)}, {{{"axis", moved[0]}}}), {moved[0]});
      const Dim last = shape[static_cast<size_t>(moved[0])] - 1;
      Value* at = o.g("Max", {o.g("Min", {starts[0], o.g.size(last)}), o.g.index(0)});
      return o.g("Gather", {x, o.g.reshape(at, {1})}, {{{"axis", moved[0]}}});
    }
    for (Value*& start : starts) start = o.g.reshape(start, {1});
    Value* list = starts.size() == 1 ? starts[0] : o.g("Concat", starts, {{{"axis", int64_t{0}}}});
    Attrs attrs{{"window_dims", first_numbers(shape.size())}, {"collapsed_dims", Ints{}}, {"index_map", moved}};
    attrs.set("index_vector_dim", int64_t{0});
    attrs.set("slice_sizes", sizes);
    return o.g("fettle.Gather", {x, list}, std::move(attrs));
  });
}

// (operand, update, start…): likewise.
Result<Tensors> dynamic_update_slice(OpImport& o) {
  if (o.in.size() < 2 || !o.in[1].re) return o.mistaken("it has no update");
  Tensor result;
  for (const bool imaginary : {false, true}) {
    Value *x = part_of(o.in[0], imaginary), *update = part_of(o.in[1], imaginary);
    if (!x || !update) continue;
    const Shape shape = x->shape(), window = update->shape();
    if (window.size() != shape.size() || o.in.size() != shape.size() + 2)
      return o.mistaken("its indices are not as many as the operand's dims");
    Value* made = update;
    if (window != shape) {
      Value* list = index_list(o, 2);
      Shape room;
      for (size_t d = 0; d < shape.size(); ++d) room.push_back(shape[d] - window[d]);
      Value* most = o.g("SizeList", {}, {{{"sizes", dims_attr(room)}}});
      list = o.g("Max", {o.g("Min", {list, most}), o.g.index(0)});
      Attrs attrs{{"window_dims", first_numbers(shape.size())}, {"index_map", first_numbers(shape.size())}};
      attrs.set("index_vector_dim", int64_t{0});
      made = o.g("ScatterWindows", {x, list, update}, std::move(attrs));
      if (const auto row = row_update(o, x, update)) o.importer.scope().updates.insert_or_assign(made, *row);
    }
    (imaginary ? result.im : result.re) = made;
  }
  return Tensors{result};
}

// (operand, starts, limits, strides): numbers that data tell.
Result<Tensors> real_dynamic_slice(OpImport& o) {
  std::vector<Shape> lists;
  for (size_t i = 1; i < 3; ++i) {
    FETTLE_TRY(Value * integers, o.real(i));
    lists.push_back(dims_of(o, integers));
  }
  FETTLE_TRY(const Ints strides, numbers_of(o, 3, "a stride"));
  return of_parts(o, [&](Value* x) -> Result<Value*> {
    const auto fits = [&](const auto& list) { return list.size() == x->shape().size(); };
    if (!std::ranges::all_of(lists, fits) || !fits(strides))
      return o.mistaken("its indices are not as many as the operand's dims");
    return sliced(o, x, lists[0], lists[1], strides);
  });
}

// --- padding

Result<Tensors> padded_by(OpImport& o, const Shape& low, const Shape& high, const Ints& interior) {
  if (o.in.size() < 2) return o.mistaken("it has no padding value");
  Tensor result;
  for (const bool imaginary : {false, true}) {
    Value *x = part_of(o.in[0], imaginary), *value = part_of(o.in[1], imaginary);
    if (!x || !value) continue;
    const size_t rank = x->shape().size();
    if (low.size() != rank || high.size() != rank || interior.size() != rank)
      return o.mistaken("its padding is not of as many dims as the operand");
    value = o.g.reshape(value, {});
    for (size_t d = 0; d < rank; ++d) {
      if (interior[d] < 0) return o.mistaken("interior_padding is negative");
      if (interior[d] > 0) x = ops::dilated(o.g, x, static_cast<int64_t>(d), interior[d] + 1, value);
    }
    (imaginary ? result.im : result.re) = ops::padded(o.g, x, low, high, value);
  }
  return Tensors{result};
}
Result<Tensors> pad(OpImport& o) {
  const size_t rank = o.result_type().shape.size();
  const Ints low = o.ints("edge_padding_low"), high = o.ints("edge_padding_high");
  return padded_by(o, Shape(low.begin(), low.end()), Shape(high.begin(), high.end()),
                   o.ints("interior_padding", Ints(rank, 0)));
}
Result<Tensors> dynamic_pad(OpImport& o) {
  FETTLE_TRY(const Shape low, sizes_of(o, 2));
  FETTLE_TRY(const Shape high, sizes_of(o, 3));
  FETTLE_TRY(const Ints interior, numbers_of(o, 4, "an amount of padding between elements"));
  return padded_by(o, low, high, interior);
}

// --- sizes, tuples, tokens

Result<Tensors> get_dimension_size(OpImport& o) {
  const int64_t axis = o.integer("dimension");
  if (o.in.empty() || !o.in[0].re || axis < 0 || axis >= o.in[0].re->rank())
    return o.mistaken(fmt::format("dimension is {}", axis));
  return Tensors{{o.g.cast(o.g.size(o.in[0].re->shape()[static_cast<size_t>(axis)]), o.result_dtype())}};
}
// A tensor is as large as it is: what states its size again must state the same.
Result<Tensors> set_dimension_size(OpImport& o) {
  FETTLE_TRY(Value * size, o.real(1));
  const int64_t axis = o.integer("dimension");
  if (axis < 0 || axis >= o.in[0].re->rank()) return o.mistaken(fmt::format("dimension is {}", axis));
  const Dim extent = dims_of(o, o.g.reshape(size, {}))[0];
  return of_parts(o, [&](Value* x) -> Result<Value*> { return o.g.slice(x, axis, 0, extent); });
}
Result<Tensors> shape_of(OpImport& o) { return Tensors{{o.g.cast(o.g("Shape", {o.in[0].re}), o.result_dtype())}}; }
Result<Tensors> same(OpImport& o) { return o.in; }
Result<Tensors> token(OpImport&) { return Tensors{{}}; }
Result<Tensors> tuple(OpImport& o) {
  Tensor result;
  result.parts = o.in;
  return Tensors{result};
}
Result<Tensors> get_tuple_element(OpImport& o) {
  const int64_t index = o.integer("index");
  if (index < 0 || index >= std::ssize(o.in[0].parts)) return o.mistaken(fmt::format("index is {}", index));
  return Tensors{o.in[0].parts[static_cast<size_t>(index)]};
}

// What indices say along one dim, as torch has it.
Result<Tensors> torch_index_select(OpImport& o) {
  if (o.integer("batch_dims") != 0) return o.refuse("batch_dims");
  FETTLE_TRY(Value * index, o.real(1));
  Tensor result = o.in[0];
  const int64_t axis = o.integer("dim");
  for_each_part(result, [&](Value*& part) { part = o.g("Gather", {part, index}, {{{"axis", axis}}}); });
  return Tensors{result};
}

constexpr OpEntry kShapes[] = {
    {"chlo.dynamic_reshape", dynamic_reshape},
    {"shape.shape_of", shape_of},
    {"stablehlo.after_all", token},
    {"stablehlo.broadcast", broadcast},
    {"stablehlo.broadcast_in_dim", broadcast_in_dim},
    {"stablehlo.concatenate", concatenate},
    {"stablehlo.constant", constant},
    {"stablehlo.create_token", token},
    {"stablehlo.dynamic_broadcast_in_dim", dynamic_broadcast_in_dim},
    {"stablehlo.dynamic_iota", dynamic_iota},
    {"stablehlo.dynamic_pad", dynamic_pad},
    {"stablehlo.dynamic_reshape", dynamic_reshape},
    {"stablehlo.dynamic_slice", dynamic_slice},
    {"stablehlo.dynamic_update_slice", dynamic_update_slice},
    {"stablehlo.get_dimension_size", get_dimension_size},
    {"stablehlo.get_tuple_element", get_tuple_element},
    {"stablehlo.iota", iota},
    {"stablehlo.optimization_barrier", same},
    {"stablehlo.pad", pad},
    {"stablehlo.real_dynamic_slice", real_dynamic_slice},
    {"stablehlo.reshape", reshape},
    {"stablehlo.reverse", reverse},
    {"stablehlo.set_dimension_size", set_dimension_size},
    {"stablehlo.slice", slice},
    {"stablehlo.torch_index_select", torch_index_select},
    {"stablehlo.transpose", transpose},
    {"stablehlo.tuple", tuple},
};

}  // namespace

extern constinit const OpEntries shape_operators{kShapes};

}  // namespace fettle::stablehlo
