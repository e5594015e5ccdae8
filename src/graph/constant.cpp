#include "graph/constant.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "graph/dim.h"
#include "graph/small_types.h"

namespace fettle {
namespace {

template <class T>
T element(const ConstantTensor& tensor, int64_t i) {
  T value;
  std::memcpy(&value, tensor.bytes.get() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

double half_to_double(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? __builtin_nan("") : sign * __builtin_inf();
  if (exponent == 0) return sign * __builtin_ldexp(mantissa, -24);
  return sign * __builtin_ldexp(1024 + mantissa, exponent - 25);
}

uint16_t double_to_half(double value) {
  const auto as_half = static_cast<_Float16>(value);
  return std::bit_cast<uint16_t>(as_half);
}

// Toward zero; what lies outside of 64 bits becomes their end, NaN zero.
int64_t whole_number(double value, bool is_unsigned) {
  if (std::isnan(value)) return 0;
  if (is_unsigned && value >= 0x1p63)
    return static_cast<int64_t>(value < 0x1p64 ? static_cast<uint64_t>(value) : UINT64_MAX);
  return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
}

void store_element(std::byte* at, DType dtype, double value) {
  const auto put = [at](auto v) { std::memcpy(at, &v, sizeof v); };
  if (dtype == kF32) return put(static_cast<float>(value));
  if (dtype == kF64) return put(value);
  if (dtype == kF16) return put(double_to_half(value));
  if (dtype == kBF16) {
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    return put(static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16));
  }
  if (dtype.is_bool()) return put(static_cast<uint8_t>(value != 0));
  if (dtype.is_small_float()) return put(small_float_code(dtype, value));
  const int64_t whole = whole_number(value, dtype.code == TypeCode::kUInt);
  switch (program_dtype(dtype).bits) {
    case 8:
      return put(static_cast<uint8_t>(whole));
    case 16:
      return put(static_cast<uint16_t>(whole));
    case 32:
      return put(static_cast<uint32_t>(whole));
    default:
      return put(whole);
  }
}

}  // namespace

int64_t ConstantTensor::n_elems() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

double ConstantTensor::at(int64_t i) const {
  FETTLE_CHECK(i >= 0 && i < n_elems());
  if (dtype == kF32) return element<float>(*this, i);
  if (dtype == kF64) return element<double>(*this, i);
  if (dtype == kF16) return half_to_double(element<uint16_t>(*this, i));
  if (dtype == kBF16) return std::bit_cast<float>(static_cast<uint32_t>(element<uint16_t>(*this, i)) << 16);
  if (dtype.is_small_float()) return small_float_value(dtype, element<uint8_t>(*this, i));
  return static_cast<double>(int_at(i));
}

int64_t ConstantTensor::int_at(int64_t i) const {
  FETTLE_CHECK(i >= 0 && i < n_elems());
  if (dtype.is_bool()) return element<uint8_t>(*this, i) != 0;
  if (dtype.is_float() || dtype.is_small_float()) return whole_number(at(i), false);
  const bool is_signed = dtype.code == TypeCode::kInt;
  switch (program_dtype(dtype).bits) {
    case 8:
      return is_signed ? int64_t{element<int8_t>(*this, i)} : int64_t{element<uint8_t>(*this, i)};
    case 16:
      return is_signed ? int64_t{element<int16_t>(*this, i)} : int64_t{element<uint16_t>(*this, i)};
    case 32:
      return is_signed ? int64_t{element<int32_t>(*this, i)} : int64_t{element<uint32_t>(*this, i)};
    default:
      return element<int64_t>(*this, i);
  }
}

bool operator==(const ConstantTensor& a, const ConstantTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.size_bytes == b.size_bytes &&
         (a.bytes == b.bytes || std::memcmp(a.bytes.get(), b.bytes.get(), static_cast<size_t>(a.size_bytes)) == 0);
}

Result<int64_t> checked_bytes(DType dtype, std::span<const int64_t> shape) {
  __int128 bytes = dtype.element_bytes();
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0 || extent > kMaxDim)
      return fail(ErrorCode::E608, fmt::format("a tensor has an extent of {}; at most {} is allowed", extent, kMaxDim));
    if (extent == 0) empty = true;
    if (extent > 0) bytes *= extent;
    if (bytes > kMaxTensorBytes)
      return fail(ErrorCode::E608, fmt::format("a tensor of more than {} bytes", kMaxTensorBytes));
  }
  return empty ? 0 : static_cast<int64_t>(bytes);
}

Result<TensorBuilder> make_tensor(DType dtype, std::vector<int64_t> shape) {
  FETTLE_TRY(const int64_t size_bytes, checked_bytes(dtype, shape));
  auto memory = zeroed_bytes(size_bytes);
  if (!memory) return fail(ErrorCode::E608, fmt::format("no memory for a tensor of {} bytes", size_bytes));
  return TensorBuilder{dtype, std::move(shape), std::move(memory), size_bytes};
}

ConstantTensor int_list(std::span<const int64_t> values) {
  auto builder = make_tensor(kI64, {static_cast<int64_t>(values.size())}).value();
  std::copy(values.begin(), values.end(), builder.elems<int64_t>().begin());
  return std::move(builder).finish();
}

ConstantTensor scalar(double value, DType dtype) { return filled(value, dtype, {}).value(); }

Result<ConstantTensor> filled(double value, DType dtype, std::vector<int64_t> shape) {
  FETTLE_TRY(auto builder, make_tensor(dtype, std::move(shape)));
  const int step = dtype.element_bytes();
  for (int64_t at = 0; at < builder.size_bytes; at += step) store_element(builder.bytes.get() + at, dtype, value);
  return std::move(builder).finish();
}

Result<ConstantTensor> to_tensor(std::span<const double> values, DType dtype, std::vector<int64_t> shape) {
  FETTLE_TRY(auto builder, make_tensor(dtype, std::move(shape)));
  std::byte* at = builder.bytes.get();
  FETTLE_CHECK(static_cast<int64_t>(values.size()) * dtype.element_bytes() == builder.size_bytes);
  for (const double value : values) {
    store_element(at, dtype, value);
    at += dtype.element_bytes();
  }
  return std::move(builder).finish();
}

ConstantTensor reshaped(const ConstantTensor& tensor, std::vector<int64_t> shape) {
  ConstantTensor result = tensor;
  result.shape = std::move(shape);
  FETTLE_CHECK(result.n_elems() == tensor.n_elems());
  return result;
}

ConstantTensor transposed(const ConstantTensor& tensor, std::span<const int> order) {
  const size_t rank = tensor.shape.size();
  FETTLE_CHECK(order.size() == rank);
  std::vector<int64_t> strides(rank), shape(rank), steps(rank);  // of the dims of the result: extents and strides there
  int64_t stride = tensor.dtype.element_bytes();
  for (size_t d = rank; d-- > 0;) {
    strides[d] = stride;
    stride *= tensor.shape[d];
  }
  for (size_t k = 0; k < rank; ++k) {
    shape[k] = tensor.shape[static_cast<size_t>(order[k])];
    steps[k] = strides[static_cast<size_t>(order[k])];
  }
  TensorBuilder made = make_tensor(tensor.dtype, shape).value();  // as large as `tensor`
  const auto bytes = static_cast<size_t>(tensor.dtype.element_bytes());
  std::vector<int64_t> at(rank);
  const std::byte* from = tensor.bytes.get();
  for (int64_t offset = 0; offset < made.size_bytes; offset += static_cast<int64_t>(bytes)) {
    std::memcpy(made.bytes.get() + offset, from, bytes);
    for (size_t k = rank; k-- > 0;) {
      from += steps[k];
      if (++at[k] < shape[k]) break;
      from -= steps[k] * shape[k];
      at[k] = 0;
    }
  }
  return std::move(made).finish();
}

std::vector<double> to_doubles(const ConstantTensor& tensor) {
  if (tensor.dtype == kF32) {
    const auto elems = tensor.elems<float>();
    return {elems.begin(), elems.end()};
  }
  std::vector<double> values(static_cast<size_t>(tensor.n_elems()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.at(static_cast<int64_t>(i));
  return values;
}

std::vector<int64_t> to_ints(const ConstantTensor& tensor) {
  std::vector<int64_t> values(static_cast<size_t>(tensor.n_elems()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.int_at(static_cast<int64_t>(i));
  return values;
}

namespace {
constexpr std::pair<int, DType> kOnnxTypes[] = {
    {1, kF32},    {2, kU8},    {3, kI8},        {4, kU16},         {5, kI16},     {6, kI32},
    {7, kI64},    {9, kBool},  {10, kF16},      {11, kF64},        {12, kU32},    {13, kU64},
    {8, kString}, {16, kBF16}, {17, kF8E4M3FN}, {18, kF8E4M3FNUZ}, {19, kF8E5M2}, {20, kF8E5M2FNUZ},
    {21, kU4},    {22, kI4},   {23, kF4E2M1},   {24, kF8E8M0},     {25, kU2},     {26, kI2}};
}  // namespace

std::optional<DType> element_type(int64_t onnx_number) {
  for (const auto& [number, dtype] : kOnnxTypes)
    if (number == onnx_number) return dtype;
  return std::nullopt;
}

int64_t onnx_number(DType wanted) {
  for (const auto& [number, dtype] : kOnnxTypes)
    if (dtype == wanted) return number;
  FETTLE_UNREACHABLE();
}

}  // namespace fettle
