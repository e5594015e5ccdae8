// Quantized tensors: integers, and the real numbers that they stand for.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"

namespace fettle::stablehlo {
namespace {

// A number for each element, or for each block of the dims that have several, in a shape that broadcasts to the
// tensor's.
Result<Value*> spread(OpImport& o, const std::vector<double>& numbers, const Quantization& q, const Shape& shape,
                      DType dtype) {
  if (q.dims.empty()) {
    if (numbers.size() != 1) return o.mistaken("a quantized type has not one scale");
    return o.number(numbers[0], dtype);
  }
  Shape extents(shape.size(), Dim(1)), parted;
  Ints counts;
  bool has_blocks = false;
  for (size_t k = 0; k < q.dims.size(); ++k) {
    const auto d = static_cast<size_t>(q.dims[k]);
    if (d >= shape.size() || !shape[d].is_number()) return o.mistaken("a quantized dim is open, or is not there");
    const int64_t block = k < q.blocks.size() ? q.blocks[k] : 1;
    if (block < 1 || shape[d].value() % block != 0) return o.mistaken("blocks do not fit a quantized dim");
    has_blocks = has_blocks || block != 1;
    extents[d] = shape[d].value() / block;
    counts.push_back(shape[d].value() / block);
  }
  FETTLE_TRY(ConstantTensor data, to_tensor(numbers, dtype, {static_cast<int64_t>(numbers.size())}));
  if (element_count(extents) != Dim(std::ssize(numbers))) return o.mistaken("a quantized type has other scales");
  Ints fixed;
  for (const Dim& extent : extents) fixed.push_back(extent.value());
  Value* made = o.g.constant(reshaped(data, fixed));
  if (!has_blocks) return made;
  for (size_t k = 0; k < q.dims.size(); ++k) {
    const auto d = static_cast<size_t>(q.dims[k]);
    if (k >= q.blocks.size() || q.blocks[k] == 1) continue;
    Shape each = made->shape();
    each.insert(each.begin() + q.dims[k] + 1, Dim(1));
    Shape wide = each, joined = made->shape();
    wide[d + 1] = q.blocks[k];
    joined[d] = joined[d] * q.blocks[k];
    made = o.g.reshape(o.expand(o.g.reshape(made, each), wide), joined);
  }
  return made;
}

Result<Tensors> uniform_dequantize(OpImport& o) {
  FETTLE_TRY(Tensor made, dequantized(o, o.in[0]));
  return Tensors{made};
}
// Of real numbers, or of what is quantized in another way.
Result<Tensors> uniform_quantize(OpImport& o) {
  FETTLE_TRY(const Tensor real, dequantized(o, o.in[0]));
  FETTLE_TRY(Tensor made, quantized(o, real, o.result_type().element.quantization));
  return Tensors{made};
}

constexpr OpEntry kQuantized[] = {
    {"stablehlo.uniform_dequantize", uniform_dequantize},
    {"stablehlo.uniform_quantize", uniform_quantize},
};

}  // namespace

Result<Tensor> dequantized(OpImport& o, const Tensor& tensor) {
  if (!tensor.quantization) return tensor;
  const Quantization& q = *tensor.quantization;
  const Elements e(o);
  const Shape& shape = tensor.re->shape();
  FETTLE_TRY(Value * scale, spread(o, q.scales, q, shape, q.expressed));
  FETTLE_TRY(Value * zero, spread(o, {q.zero_points.begin(), q.zero_points.end()}, q, shape, q.expressed));
  return Tensor{e.mul(e.sub(e.cast(tensor.re, q.expressed), zero), scale)};
}

Result<Tensor> quantized(OpImport& o, const Tensor& tensor, std::shared_ptr<const Quantization> quantization) {
  if (!quantization) return o.mistaken("its result is not quantized");
  const Quantization& q = *quantization;
  const Elements e(o);
  Value* x = e.cast(tensor.re, q.expressed);
  const Shape& shape = x->shape();
  FETTLE_TRY(Value * scale, spread(o, q.scales, q, shape, q.expressed));
  FETTLE_TRY(Value * zero, spread(o, {q.zero_points.begin(), q.zero_points.end()}, q, shape, q.expressed));
  Value* whole = e.add(e.op("Round", {e.div(x, scale)}), zero);
  whole = e.greatest(e.least(whole, e.number(static_cast<double>(q.storage_max), whole)),
                     e.number(static_cast<double>(q.storage_min), whole));
  // Small integers go by a type that holds them.
  const DType wide = q.storage.bits < 8 ? DType{q.storage.code, 8, 1} : q.storage;
  return Tensor{.re = e.cast(e.cast(whole, wide), q.storage), .quantization = std::move(quantization)};
}

extern constinit const OpEntries quantized_operators{kQuantized};

}  // namespace fettle::stablehlo
