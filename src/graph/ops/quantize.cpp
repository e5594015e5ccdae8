// Quantisation: what numbers are as integers (or small floats) of a scale and a zero point, and products of such.

#include <algorithm>

#include <fmt/format.h>

#include "graph/passes/lowering.h"
#include "graph/small_types.h"
#include "ir/byte_table.h"

namespace fettle {
namespace {

using namespace ops;
using passes::Lowering;

// --- QuantizeLinear, DequantizeLinear: scale and zero point are of the whole tensor, of each element of one axis, or,
// with block_size, of each block of an axis

bool is_one_number(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& d) { return d == Dim(1); });
}

Result<> check_parameter(const Node& node, size_t input, int64_t axis) {
  const Shape &x = shape_of(node, 0), &p = shape_of(node, input);
  const int64_t block = node.attrs.get_int("block_size", 0);
  if (block < 0) return bad_attribute(node, fmt::format("block_size is {}", block));
  if (block == 0) {
    if (p.size() <= 1 && is_one_number(p)) return {};
    if (p.size() != 1)
      return bad_types(node,
                       fmt::format("input {} is {}; without block_size it has at most one dim", input, to_string(p)));
    FETTLE_TRY_VOID(common_dim(node, x[static_cast<size_t>(axis)], p[0], fmt::format("the axis and input {}", input)));
    return {};
  }
  FETTLE_TRY_VOID(check_rank(node, input, rank_of(node, 0), rank_of(node, 0)));
  for (size_t d = 0; d < x.size(); ++d) {
    const Dim wanted = static_cast<int64_t>(d) == axis ? ceildiv(x[d], block) : x[d];
    FETTLE_TRY_VOID(common_dim(node, wanted, p[d], fmt::format("dim {} of input {}, in blocks", d, input)));
  }
  return {};
}

// The axis, where parameters are not one number each.
Result<int64_t> check_parameters(const Node& node) {
  int64_t axis = 0;
  bool has_axis = node.attrs.get_int("block_size", 0) != 0;
  for (size_t i = 1; i < node.inputs.size(); ++i) has_axis |= has_input(node, i) && !is_one_number(shape_of(node, i));
  if (has_axis) {
    FETTLE_TRY(axis, axis_of(node, 1));
  }
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (has_input(node, i)) FETTLE_TRY_VOID(check_parameter(node, i, axis));
  return axis;
}

// The scale or the zero point of the element at i.
Expr parameter(const Node& node, size_t input, const te::Tensor& p, const Indices& i, int64_t axis) {
  const Shape& shape = shape_of(node, input);
  if (is_one_number(shape)) return scalar_of(p);
  const auto a = static_cast<size_t>(axis);
  if (shape.size() == 1 && node.attrs.get_int("block_size", 0) == 0) return p(i[a]);
  return p(with_replaced(i, axis, floordiv(i[a], Expr(node.attrs.get_int("block_size", 1)))));
}

// Any element as a number that arithmetic takes: of a small float its value in single precision.
Expr value_of(const Node& node, size_t input, const Expr& element) {
  const DType dtype = dtype_of(node, input);
  return dtype.is_small_float() ? small_float_value(dtype, element) : element;
}

Result<DType> attribute_type(const Node& node, std::string_view name, DType otherwise) {
  const int64_t code = node.attrs.get_int(name, 0);
  if (code == 0) return otherwise;
  if (const auto dtype = element_type(code)) return *dtype;
  return fail(ErrorCode::E603, fmt::format("{} to element type {}", node.op->name, code), node.name);
}

bool is_quantized(DType dtype) { return dtype.is_int() || dtype.is_small_float(); }

Types quantize_type(const Node& node) {
  FETTLE_TRY(DType dtype, attribute_type(node, "output_dtype", has_input(node, 2) ? dtype_of(node, 2) : kU8));
  if (has_input(node, 2) && dtype != dtype_of(node, 2))
    return bad_types(node, fmt::format("output_dtype is {}, the zero point of {}", dtype.to_string(),
                                       dtype_of(node, 2).to_string()));
  if (!is_quantized(dtype) || dtype.bits > 16 || dtype == kF8E8M0)
    return bad_types(node, "it does not make elements of " + dtype.to_string());
  if (!dtype_of(node, 0).is_float() && dtype_of(node, 0) != kI32)
    return bad_types(node, "its input is of " + dtype_of(node, 0).to_string());
  FETTLE_TRY(const DType precision, attribute_type(node, "precision", kF32));
  if (!precision.is_float()) return bad_attribute(node, "precision is " + precision.to_string());
  FETTLE_TRY_VOID(check_parameters(node));
  return one_type(dtype, shape_of(node, 0));
}

// saturate(round(x / scale) + zero point), the quotient in the precision that is stated, or else the scale's.
Tensors quantize(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, check_parameters(node));
  const DType to = output_dtype(node), from = dtype_of(node, 0), scale_type = dtype_of(node, 1);
  const DType usual = scale_type.is_float() ? scale_type : from.is_float() ? from : kF32;
  FETTLE_TRY(const DType precision, attribute_type(node, "precision", usual));
  const DType work = computed_dtype(precision);
  const auto& known = node.inputs[1]->constant;
  const bool divides_by_one = known && known->n_elems() == 1 && !known->dtype.is_small_float() && known->at(0) == 1;
  return one(map_output(node, [&](const Indices& i) {
    const auto at_precision = [&](const Expr& e) { return cast(work, cast(precision, e)); };
    Expr quotient = at_precision(in[0](i));
    if (!divides_by_one) {
      const Expr scale = value_of(node, 1, parameter(node, 1, in[1], i, axis));
      quotient = at_precision(quotient / at_precision(scale));
    }
    Expr zero;
    if (has_tensor(in, 2)) zero = cast(work, value_of(node, 2, parameter(node, 2, in[2], i, axis)));
    if (to.is_small_float()) {
      const Expr moved = zero ? quotient + zero : quotient;
      return small_float_code(to, moved, node.attrs.get_int("saturate", 1) != 0);
    }
    const Expr rounded = math("round", {quotient}), moved = zero ? rounded + zero : rounded;
    if (program_dtype(to) == to) return cast(to, moved);  // which saturates
    const auto bound = [&](int64_t n) { return constant(static_cast<double>(n), work); };
    return cast(program_dtype(to), clamp(moved, bound(least_int(to)), bound(greatest_int(to))));
  }));
}

Types dequantize_type(const Node& node) {
  const DType from = dtype_of(node, 0);
  if (!is_quantized(from) || from == kF8E8M0) return bad_types(node, "its input is of " + from.to_string());
  if (has_input(node, 2) && dtype_of(node, 2) != from)
    return bad_types(
        node, fmt::format("the input is of {}, the zero point of {}", from.to_string(), dtype_of(node, 2).to_string()));
  const DType scale = dtype_of(node, 1);
  FETTLE_TRY(const DType to, attribute_type(node, "output_dtype", scale.is_float() ? scale : kF32));
  if (!to.is_float()) return bad_attribute(node, "output_dtype is " + to.to_string());
  FETTLE_TRY_VOID(check_parameters(node));
  return one_type(to, shape_of(node, 0));
}

// (x - zero point) * scale
Tensors dequantize(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, check_parameters(node));
  const DType to = output_dtype(node), work = computed_dtype(to);
  return one(map_output(node, [&](const Indices& i) {
    const auto whole = [&](size_t input, const Expr& e) {
      const DType dtype = dtype_of(node, input);
      return dtype.is_small_float() ? value_of(node, input, e) : cast(dtype.bits < 32 ? kI32 : kI64, e);
    };
    Expr x = whole(0, in[0](i));
    if (has_tensor(in, 2)) x = x - whole(2, parameter(node, 2, in[2], i, axis));
    return cast(work, x) * cast(work, value_of(node, 1, parameter(node, 1, in[1], i, axis)));
  }));
}

// --- functions of one byte

Types look_up_type(const Node& node) {
  if (const DType from = dtype_of(node, 0); from != kU8 && from != kI8)
    return bad_types(node, "its input is of " + from.to_string() + ", not i8 or u8");
  if (shape_of(node, 1) != Shape{Dim(kByteValues)}) return bad_types(node, "its table has not 256 elements");
  return one_type(dtype_of(node, 1), shape_of(node, 0));
}

// table[x], of i8 as the bits say: 0 … 127, -128 … -1
Tensors look_up(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) { return in[1](Indices{cast(kI32, cast(kU8, in[0](i)))}); }));
}

// --- products of quantised tensors: in whole numbers, zero points taken off

bool is_all_zero(const Value& value) {
  return value.is_constant() && std::ranges::all_of(to_doubles(*value.constant), [](double x) { return x == 0; });
}

// saturate(round(sum * multiplier + zero point)), in double precision, as ONNX's reference has it.
Value* requantized(Lowering& g, Value* sum, Value* multiplier, Value* zero, DType dtype) {
  Value* y = g("Mul", {g.cast(sum, kF64), g.cast(multiplier, kF64)});
  if (zero && !is_all_zero(*zero)) y = g("Add", {y, g.cast(zero, kF64)});
  return g.cast(g("Round", {y}), dtype);  // a cast of a float to an integer saturates
}

Result<> check_int8(const Node& node, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs)
    if (dtype_of(node, i) != kI8 && dtype_of(node, i) != kU8)
      return bad_types(node, fmt::format("input {} is of {}, not i8 or u8", i, dtype_of(node, i).to_string()));
  return {};
}

// One number a channel, beside images of this rank.
Value* by_channel(Lowering& g, Value* list, int rank) {
  std::vector<int64_t> spatial = first_numbers(static_cast<size_t>(rank) - 2);
  for (int64_t& d : spatial) ++d;
  return g.unsqueeze(list, spatial);
}

// (x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias)
Result<std::vector<Value*>> qlinear_conv(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_int8(node, {0, 3, 7}));
  FETTLE_TRY_VOID(check_rank(node, 0, 3));
  Value* sum = g("ConvInteger", {node.inputs[0], node.inputs[3], node.input(2), node.input(5)}, node.attrs);
  if (node.input(8)) sum = g("Add", {sum, by_channel(g, node.inputs[8], rank_of(node, 0))});
  Value* scale = node.inputs[4];
  if (!is_one_number(scale->shape())) {
    FETTLE_TRY_VOID(check_rank(node, 4, 1, 1));
    scale = by_channel(g, scale, rank_of(node, 0));
  }
  Value* multiplier = g("Div", {g("Mul", {node.inputs[1], scale}), node.inputs[6]});
  return std::vector{requantized(g, sum, multiplier, node.inputs[7], dtype_of(node, 7))};
}

// (a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero); of a and y, scales and zero points may be one a row
Result<std::vector<Value*>> qlinear_matmul(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_int8(node, {0, 3, 7}));
  const auto by_row = [&](size_t i) {
    Value* value = node.inputs[i];
    return value->rank() == 1 && !is_one_number(value->shape()) ? g.unsqueeze(value, {1}) : value;
  };
  Value* sum = g("MatMulInteger", {node.inputs[0], node.inputs[3], node.inputs[2], node.inputs[5]});
  Value* multiplier = g("Div", {g("Mul", {by_row(1), node.inputs[4]}), by_row(6)});
  return std::vector{requantized(g, sum, multiplier, by_row(7), dtype_of(node, 7))};
}

// (x) → (y, its scale, its zero point)
Result<std::vector<Value*>> dynamic_quantize(Lowering& g, const Node& node) {
  const passes::Quantized made = passes::dynamically_quantized(g, node.inputs[0]);
  return std::vector{made.y, made.scale, made.zero};
}

constexpr OpDef quantize_defs[] = {
    define(kBroadcast, "QuantizeLinear", {2, 3}, quantize_type, quantize, {.work = kConverts}),
    define(kBroadcast, "DequantizeLinear", {2, 3}, dequantize_type, dequantize, {.work = kConverts}),
    define(kBroadcast, "ByteLookup", {2}, look_up_type, look_up, {.work = kMoves}),
    passes::composite<dynamic_quantize>("DynamicQuantizeLinear", 1, 3),
    passes::composite<qlinear_conv>("QLinearConv", {8, 9}),
    passes::composite<qlinear_matmul>("QLinearMatMul", 8),
};

}  // namespace

extern constinit const OpFamily quantize_ops{"quantize", quantize_defs};

}  // namespace fettle
