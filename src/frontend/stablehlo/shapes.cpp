// Constants, and operators that give elements other places.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"
#include "graph/ops/padding.h"

namespace fettle::stablehlo {
namespace {

using ops::first_numbers;

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
  return o.of_parts([&](Value* x) -> Result<Value*> { return o.g.reshape(x, shape); });
}
Result<Tensors> dynamic_reshape(OpImport& o) {
  FETTLE_TRY(const Shape shape, shape_by(o, 1));
  return o.of_parts([&](Value* x) -> Result<Value*> { return o.g.reshape(x, shape); });
}

Result<Tensors> broadcast_to(OpImport& o, const Shape& shape) {
  const Ints places = o.ints("broadcast_dimensions");
  return o.of_parts([&](Value* x) -> Result<Value*> {
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
  return o.of_parts([&](Value* x) -> Result<Value*> { return o.expand(x, shape); });
}

Result<Tensors> transpose(OpImport& o) {
  const Ints order = o.ints("permutation");
  return o.of_parts(
      [&](Value* x) -> Result<Value*> { return order == first_numbers(order.size()) ? x : o.g.transpose(x, order); });
}
Result<Tensors> reverse(OpImport& o) {
  const Ints axes = o.ints("dimensions");
  return o.of_parts([&](Value* x) -> Result<Value*> { return axes.empty() ? x : ops::reversed(o.g, x, axes); });
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
  return o.of_parts([&](Value* x) -> Result<Value*> { return o.g.slice(x, axis, 0, extent); });
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
    {"stablehlo.get_dimension_size", get_dimension_size},
    {"stablehlo.get_tuple_element", get_tuple_element},
    {"stablehlo.iota", iota},
    {"stablehlo.optimization_barrier", same},
    {"stablehlo.pad", pad},
    {"stablehlo.reshape", reshape},
    {"stablehlo.reverse", reverse},
    {"stablehlo.set_dimension_size", set_dimension_size},
    {"stablehlo.torch_index_select", torch_index_select},
    {"stablehlo.transpose", transpose},
    {"stablehlo.tuple", tuple},
};

}  // namespace

extern constinit const OpEntries shape_operators{kShapes};

}  // namespace fettle::stablehlo
