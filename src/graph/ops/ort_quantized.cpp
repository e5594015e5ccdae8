// Quantised operators of ONNX Runtime (com.microsoft): those between a DequantizeLinear and a QuantizeLinear, and
// products of matrices of few bits.

#include <cmath>

#include <fmt/format.h>

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;
using Values = Result<std::vector<Value*>>;

/// Inputs at `first`: a tensor, its scale, its zero point, which may be missing.
Value* dequantized(Lowering& g, const Node& node, size_t first) {
  return g("DequantizeLinear", {node.inputs[first], node.inputs[first + 1], node.input(first + 2)});
}
/// As the inputs at `scale`: scale and zero point; without one, zero of the type `otherwise`.
Value* quantized(Lowering& g, const Node& node, Value* x, size_t scale, DType otherwise) {
  Value* zero = node.input(scale + 1);
  Attrs attrs;
  if (!zero) attrs.set("output_dtype", onnx_number(otherwise));
  return g("QuantizeLinear", {x, node.inputs[scale], zero}, std::move(attrs));
}

// (A, scale, zero, B, scale, zero, C scale, C zero)
template <Text Op>
Values qlinear_pair(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_given(node, {3, 4, 6}));
  FETTLE_TRY_VOID(check_attributes(node, {}));
  Value* y = g(Op.chars, {dequantized(g, node, 0), dequantized(g, node, 3)});
  return std::vector{quantized(g, node, y, 6, dtype_of(node, 0))};
}

// (X, scale, zero, Y scale, Y zero)
Values qlinear_sigmoid(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_given(node, {3}));
  FETTLE_TRY_VOID(check_attributes(node, {}));
  return std::vector{quantized(g, node, g("Sigmoid", {dequantized(g, node, 0)}), 3, dtype_of(node, 0))};
}
Values qlinear_leaky_relu(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_given(node, {3}));
  FETTLE_TRY_VOID(check_attributes(node, {"alpha"}));
  Value* y = g("LeakyRelu", {dequantized(g, node, 0)}, picked(node, {"alpha"}));
  return std::vector{quantized(g, node, y, 3, dtype_of(node, 0))};
}
// `opset` is that of the Softmax which was quantised.
Values qlinear_softmax(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_given(node, {3}));
  FETTLE_TRY_VOID(check_attributes(node, {"axis", "opset"}));
  const bool is_old = node.attrs.get_int("opset", 13) < 13;
  Attrs attrs;
  attrs.set("axis", node.attrs.get_int("axis", is_old ? 1 : -1));
  if (is_old) attrs.set("coerced", int64_t{1});
  Value* y = g("Softmax", {dequantized(g, node, 0)}, std::move(attrs));
  return std::vector{quantized(g, node, y, 3, dtype_of(node, 0))};
}
Values qlinear_reduce_mean(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_given(node, {3}));
  FETTLE_TRY_VOID(check_attributes(node, {"axes", "keepdims"}));
  Value* y = g("ReduceMean", {dequantized(g, node, 0)}, picked(node, {"axes", "keepdims"}));
  return std::vector{quantized(g, node, y, 3, dtype_of(node, 0))};
}

// Pooling of images whose channels may come last.
Values pooled(Lowering& g, const Node& node, std::string_view op, Attrs attrs) {
  FETTLE_TRY_VOID(check_given(node, {3}));
  FETTLE_TRY_VOID(check_rank(node, 0, 3));
  Value* x = dequantized(g, node, 0);
  const bool channels_last = node.attrs.get_int("channels_last", 0) != 0;
  std::vector<int64_t> to_front = first_numbers(x->shape().size()), to_back = to_front;
  std::rotate(to_front.begin() + 1, to_front.end() - 1, to_front.end());
  std::rotate(to_back.begin() + 1, to_back.begin() + 2, to_back.end());
  if (channels_last) x = g.transpose(x, to_front);
  Value* y = g(op, {x}, std::move(attrs));
  if (channels_last) y = g.transpose(y, to_back);
  return std::vector{quantized(g, node, y, 3, dtype_of(node, 0))};
}
Values qlinear_global_average_pool(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"channels_last"}));
  return pooled(g, node, "GlobalAveragePool", {});
}
constexpr std::string_view kPooling[] = {"auto_pad",     "ceil_mode", "count_include_pad",
                                         "kernel_shape", "pads",      "strides"};
Values qlinear_average_pool(Lowering& g, const Node& node) {
  std::vector<std::string_view> known(std::begin(kPooling), std::end(kPooling));
  known.push_back("channels_last");
  FETTLE_TRY_VOID(check_attributes(node, known));
  return pooled(g, node, "AveragePool", picked(node, kPooling));
}

// (Y scale, Y zero, then each input with scale and zero)
Values qlinear_concat(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"axis"}));
  for (size_t i = 0; i < node.inputs.size(); ++i) FETTLE_TRY_VOID(check_given(node, {i}));
  if (node.inputs.size() % 3 != 2) return bad_attribute(node, fmt::format("it has {} inputs", node.inputs.size()));
  std::vector<Value*> parts;
  for (size_t i = 2; i < node.inputs.size(); i += 3)
    parts.push_back(quantized(g, node, dequantized(g, node, i), 0, kU8));
  return std::vector{g("Concat", parts, picked(node, {"axis"}))};
}

// (condition, X, scale, zero, Y, scale, zero, Z scale, Z zero)
Values qlinear_where(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {}));
  Value* z = g("Where", {node.inputs[0], dequantized(g, node, 1), dequantized(g, node, 4)});
  return std::vector{quantized(g, node, z, 7, dtype_of(node, 1))};
}

// --- products

// The sums of products as numbers: times both scales, of which a list of A's has one a row.
Value* scaled(Lowering& g, Value* sum, Value* a_scale, Value* b_scale) {
  if (a_scale->rank() == 1 && !(a_scale->shape()[0] == Dim(1))) a_scale = g.unsqueeze(a_scale, {1});
  return g("Mul", {g.cast(sum, b_scale->dtype()), g("Mul", {a_scale, b_scale})});
}

// (A, scale, zero, B, scale, zero, C of i32, Y scale, Y zero): alpha * A' · B' + C, of f32 where Y has no scale.
Values q_gemm(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"alpha", "transA", "transB"}));
  for (const size_t i : {0, 3}) FETTLE_TRY_VOID(check_rank(node, i, 2, 2));
  if (!node.input(7) != !node.input(8))
    return bad_attribute(node, "of the result's scale and zero point one is missing");
  Value* a = node.attrs.get_int("transA", 0) ? swapped(g, node.inputs[0]) : node.inputs[0];
  Value* b = node.attrs.get_int("transB", 0) ? swapped(g, node.inputs[3]) : node.inputs[3];
  Value* sum = g("MatMulInteger", {a, b, node.inputs[2], node.inputs[5]});
  if (node.input(6)) sum = g("Add", {sum, node.inputs[6]});
  Value* y = scaled(g, sum, node.inputs[1], node.inputs[4]);
  if (node.attrs.get_float("alpha", 1) != 1) y = g("Mul", {y, g.attribute("alpha", 1, y->dtype())});
  return std::vector{node.input(7) ? quantized(g, node, y, 7, dtype_of(node, 0)) : y};
}

Value* with_bias(Lowering& g, Value* y, Value* bias) { return bias ? g("Add", {y, bias}) : y; }

// (A, B, A scale, B scale, A zero, B zero, bias)
Values matmul_integer_to_float(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {}));
  Value* sum = g("MatMulInteger", {node.inputs[0], node.inputs[1], node.input(4), node.input(5)});
  return std::vector{with_bias(g, scaled(g, sum, node.inputs[2], node.inputs[3]), node.input(6))};
}

// (A of floats, B, B scale, B zero, bias)
Values dynamic_quantize_matmul(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {}));
  const passes::Quantized a = passes::dynamically_quantized(g, node.inputs[0]);
  Value* sum = g("MatMulInteger", {a.y, node.inputs[1], a.zero, node.input(3)});
  return std::vector{with_bias(g, scaled(g, sum, a.scale, node.inputs[2]), node.input(4))};
}

// Numbers of `bits` bits, packed along the last axis, the first in the lowest bits; `count` of them there.
Value* unpacked(Lowering& g, Value* packed, int64_t bits, const Dim& count) {
  const int64_t per_byte = 8 / bits;
  if (per_byte == 1) return packed;
  std::vector<double> shifts;
  for (int64_t k = 0; k < per_byte; ++k) shifts.push_back(static_cast<double>(k * bits));
  Value* by = g.constant(to_tensor(shifts, kU8, {per_byte}).value());
  const Shape& shape = packed->shape();
  Attrs right;
  right.set("direction", std::string("RIGHT"));
  Value* shifted = g("BitShift", {g.unsqueeze(packed, {static_cast<int64_t>(shape.size())}), by}, std::move(right));
  Value* number = g("BitwiseAnd", {shifted, g.number(static_cast<double>((1 << bits) - 1), kU8)});
  Shape flat = shape;
  flat.back() = flat.back() * per_byte;
  number = g.reshape(number, flat);
  return flat.back() == count ? number : g.slice(number, std::ssize(flat) - 1, 0, count.value());
}

// (A, B [N, blocks, bytes], scales [N, blocks], zero points, group indices, bias [N]): A · dequantised(B)ᵀ
Values matmul_n_bits(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked"}));
  const int64_t bits = node.attrs.get_int("bits", 4), block = node.attrs.get_int("block_size", 0);
  const int64_t k = node.attrs.get_int("K", 0), n = node.attrs.get_int("N", 0);
  if (bits != 2 && bits != 4 && bits != 8) return bad_attribute(node, fmt::format("bits is {}, not 2, 4 or 8", bits));
  if (block < 8 || block > (1 << 20) || k < 1 || n < 1 || k > kMaxDim || n > kMaxDim)
    return bad_attribute(node, fmt::format("block_size, K or N is out of range: {}, {}, {}", block, k, n));
  if (node.attrs.get_int("weight_prepacked", 0) != 0)
    return bad_attribute(node, "weight_prepacked is not 0: weights in a layout of one machine");
  if (node.input(4)) return bad_attribute(node, "g_idx is not supported");
  if (block % (8 / bits) != 0) return bad_attribute(node, fmt::format("block_size is {}", block));
  const int64_t blocks = (k + block - 1) / block;
  if (dtype_of(node, 1) != kU8) return bad_types(node, "the weights are of " + dtype_of(node, 1).to_string());
  Value* packed = g.reshape(node.inputs[1], {n, blocks, block * bits / 8});
  Value* scales = g.reshape(node.inputs[2], {n, blocks});
  Value* zero = node.input(3);
  if (zero && zero->dtype() == kU8) zero = unpacked(g, g.reshape(zero, {n, (blocks * bits + 7) / 8}), bits, blocks);
  if (zero) zero = g.reshape(zero, {n, blocks});
  Value* weights = g("UnpackBlocks", {packed, scales, zero},
                     {{{"bits", bits}, {"block_size", block}, {"k", k}, {"zero", int64_t{1} << (bits - 1)}}});
  return std::vector{with_bias(g, g("MatMul", {node.inputs[0], swapped(g, weights)}), node.input(5))};
}

// (data, indices, scales, zero points): rows of what blocks along an axis were quantised to. Rows are taken first.
Values gather_block_quantized(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"bits", "block_size", "gather_axis", "quantize_axis"}));
  Value *data = node.inputs[0], *indices = node.inputs[1], *scales = node.inputs[2], *zeros = node.input(3);
  const int64_t rank = data->rank(), bits = node.attrs.get_int("bits", 4);
  FETTLE_TRY(const int64_t taken, positive_axis(node, node.attrs.get_int("gather_axis", 0), rank));
  FETTLE_TRY(int64_t axis, positive_axis(node, node.attrs.get_int("quantize_axis", 1), rank));
  if (taken == axis) return bad_attribute(node, "the axis that is gathered is that of the blocks");
  const DType dtype = data->dtype();
  const bool is_packed = dtype == kU8;
  if (dtype.is_small_float()) return bad_types(node, "small floats are not supported");
  if (is_packed && bits != 2 && bits != 4 && bits != 8) return bad_attribute(node, fmt::format("{} bits", bits));
  const auto rows = [&](Value* x) { return g("Gather", {x, indices}, {{{"axis", taken}}}); };
  data = rows(data);
  scales = rows(scales);
  if (zeros) zeros = rows(zeros);
  if (taken < axis) axis += indices->rank() - 1;
  if (is_packed) {  // along the last axis, zero points too
    const Shape& shape = data->shape();
    const Dim count = shape.back() * (8 / bits), blocks = scales->shape().back();
    if (!count.is_number() || !blocks.is_number()) return not_known(node, "the columns must be known");
    data = unpacked(g, data, bits, count);
    zeros = zeros ? unpacked(g, zeros, bits, blocks)
                  : g("Expand", {g.number(static_cast<double>(int64_t{1} << (bits - 1)), kU8)},
                      {{{"shape", dims_attr(scales->shape())}}});
  }
  const Attrs blocks{{{"axis", axis}, {"block_size", node.attrs.get_int("block_size", 128)}}};
  return std::vector{g("DequantizeLinear", {data, scales, zeros}, blocks)};
}

constexpr OpDef ort_quantized_defs[] = {
    composite<qlinear_pair<"Add">>("com.microsoft.QLinearAdd", {2, 8}),
    composite<qlinear_pair<"Mul">>("com.microsoft.QLinearMul", {2, 8}),
    composite<qlinear_sigmoid>("com.microsoft.QLinearSigmoid", {2, 5}),
    composite<qlinear_leaky_relu>("com.microsoft.QLinearLeakyRelu", {2, 5}),
    composite<qlinear_softmax>("com.microsoft.QLinearSoftmax", {2, 5}),
    composite<qlinear_reduce_mean>("com.microsoft.QLinearReduceMean", {2, 5}),
    composite<qlinear_concat>("com.microsoft.QLinearConcat", {5, kAny}),
    composite<qlinear_where>("com.microsoft.QLinearWhere", 9),
    composite<qlinear_global_average_pool>("com.microsoft.QLinearGlobalAveragePool", {2, 5}),
    composite<qlinear_average_pool>("com.microsoft.QLinearAveragePool", {2, 5}),
    composite<q_gemm>("com.microsoft.QGemm", {6, 9}),
    composite<matmul_integer_to_float>("com.microsoft.MatMulIntegerToFloat", {4, 7}),
    composite<dynamic_quantize_matmul>("com.microsoft.DynamicQuantizeMatMul", {3, 5}),
    composite<matmul_n_bits>("com.microsoft.MatMulNBits", {3, 6}),
    composite<gather_block_quantized>("com.microsoft.GatherBlockQuantized", {3, 4}),
};

}  // namespace

extern constinit const OpFamily ort_quantized_ops{"ort_quantized", ort_quantized_defs};

}  // namespace fettle
