#include "frontend/onnx/tensor_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>

#include "graph/small_types.h"
#include "graph/strings.h"
#include "onnx-ml.pb.h"

namespace fettle::onnx_reader {
namespace {

using onnx::TensorProto;

template <class T, class Source>
void copy_values(TensorBuilder& out, const Source& source) {
  auto elems = out.elems<T>();
  for (int i = 0; i < source.size(); ++i) elems[static_cast<size_t>(i)] = static_cast<T>(source.Get(i));
}

tl::unexpected<Diagnostic> wrong_length(const TensorProto& tensor) {
  return fail(ErrorCode::E606, "the tensor's data do not have the length that its shape asks for", tensor.name());
}

// Elements of less than a byte are packed in files, the first in the lowest bits, and have a byte each in memory.
bool is_packed(DType dtype) { return is_small(dtype) && dtype.bits < 8; }

Result<int64_t> file_bytes(DType dtype, const std::vector<int64_t>& shape) {
  FETTLE_TRY(const int64_t size_bytes, checked_bytes(dtype, shape));
  if (!is_packed(dtype)) return size_bytes;
  const int64_t per_byte = 8 / dtype.bits;
  return size_bytes / per_byte + (size_bytes % per_byte != 0);
}

// byte(i): the file's byte i.
Result<ConstantTensor> unpacked(DType dtype, std::vector<int64_t> shape, const std::function<uint8_t(int64_t)>& byte) {
  FETTLE_TRY(TensorBuilder out, make_tensor(dtype, std::move(shape)));
  const int bits = dtype.bits, per_byte = 8 / bits, unused = 8 - bits;
  auto elems = out.elems<uint8_t>();
  for (size_t i = 0; i < elems.size(); ++i) {
    const auto k = static_cast<int64_t>(i);
    const auto high = static_cast<uint8_t>(byte(k / per_byte) << (unused - bits * static_cast<int>(k % per_byte)));
    // A signed element's highest bit is its sign.
    elems[i] = dtype.code == TypeCode::kInt ? static_cast<uint8_t>(static_cast<int8_t>(high) >> unused)
                                            : static_cast<uint8_t>(high >> unused);
  }
  return std::move(out).finish();
}

// Whether the numbers in int32_data are of so many bits, signed or not. E606.
Result<> check_bits(const TensorProto& tensor, int bits) {
  const auto beyond = std::ranges::find_if(
      tensor.int32_data(), [bits](int32_t value) { return value < -(1 << (bits - 1)) || value >= 1 << bits; });
  if (beyond == tensor.int32_data().end()) return {};
  return fail(ErrorCode::E606, fmt::format("the element {} does not fit {} bits", *beyond, bits), tensor.name());
}

// The fields for values that are not raw: one repeated field for each group of types.
Result<ConstantTensor> read_typed_fields(const TensorProto& tensor, DType dtype, std::vector<int64_t> shape) {
  const auto filled_with = [&](const auto& source, auto copy) -> Result<ConstantTensor> {
    FETTLE_TRY(const int64_t size_bytes, checked_bytes(dtype, shape));
    if (source.size() * int64_t{dtype.element_bytes()} != size_bytes) return wrong_length(tensor);
    FETTLE_TRY(TensorBuilder out, make_tensor(dtype, std::move(shape)));
    copy(out, source);
    return std::move(out).finish();
  };
  const auto typed = [&]<class T>(T) {
    return [](TensorBuilder& out, const auto& source) { copy_values<T>(out, source); };
  };
  switch (tensor.data_type()) {
    case TensorProto::STRING:
      return filled_with(tensor.string_data(), [](TensorBuilder& out, const auto& source) {
        for (int i = 0; i < source.size(); ++i)
          out.elems<int64_t>()[static_cast<size_t>(i)] = string_number(source.Get(i));
      });
    case TensorProto::FLOAT:
      return filled_with(tensor.float_data(), typed(float{}));
    case TensorProto::DOUBLE:
      return filled_with(tensor.double_data(), typed(double{}));
    case TensorProto::INT64:
      return filled_with(tensor.int64_data(), typed(int64_t{}));
    case TensorProto::UINT64:
      return filled_with(tensor.uint64_data(), typed(uint64_t{}));
    case TensorProto::UINT32:
      if (std::ranges::any_of(tensor.uint64_data(), [](uint64_t value) { return value > UINT32_MAX; }))
        return fail(ErrorCode::E606, "an element does not fit 32 bits", tensor.name());
      return filled_with(tensor.uint64_data(), typed(uint32_t{}));
    case TensorProto::INT32:
      return filled_with(tensor.int32_data(), typed(int32_t{}));
    case TensorProto::INT16:
    case TensorProto::UINT16:
    case TensorProto::FLOAT16:   // bits
    case TensorProto::BFLOAT16:  // bits
      FETTLE_TRY_VOID(check_bits(tensor, 16));
      return filled_with(tensor.int32_data(), typed(uint16_t{}));
    case TensorProto::BOOL:
    case TensorProto::INT8:
    case TensorProto::UINT8:
    case TensorProto::FLOAT8E4M3FN:  // bits, of these and the following
    case TensorProto::FLOAT8E4M3FNUZ:
    case TensorProto::FLOAT8E5M2:
    case TensorProto::FLOAT8E5M2FNUZ:
    case TensorProto::FLOAT8E8M0:
      FETTLE_TRY_VOID(check_bits(tensor, 8));
      return filled_with(tensor.int32_data(), typed(uint8_t{}));
    case TensorProto::INT4:
    case TensorProto::UINT4:
    case TensorProto::INT2:
    case TensorProto::UINT2:
    case TensorProto::FLOAT4E2M1: {  // a packed byte in each
      FETTLE_TRY_VOID(check_bits(tensor, 8));
      FETTLE_TRY(const int64_t bytes, file_bytes(dtype, shape));
      if (tensor.int32_data_size() != bytes) return wrong_length(tensor);
      return unpacked(dtype, std::move(shape),
                      [&](int64_t i) { return static_cast<uint8_t>(tensor.int32_data(static_cast<int>(i))); });
    }
    default:
      return fail(ErrorCode::E603, "tensors of " + data_type_name(tensor.data_type()), tensor.name());
  }
}

Result<int64_t> to_number(const std::string& text, const TensorProto& tensor) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return fail(ErrorCode::E607, fmt::format("\"{}\" is no offset or length", text), tensor.name());
  return value;
}

// Where the tensor, which takes size_bytes, lies in its file.
Result<MappedFile> find_external(const TensorProto& tensor, int64_t size_bytes, ExternalFiles& files) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      FETTLE_TRY(offset, to_number(entry.value(), tensor));
    }
    if (entry.key() == "length") {
      FETTLE_TRY(length, to_number(entry.value(), tensor));
    }
  }
  if (length >= 0 && length != size_bytes) return wrong_length(tensor);
  auto part = files.slice(location, offset, size_bytes);
  if (!part) part.error().where = tensor.name();
  return part;
}

Result<ConstantTensor> read_external(const TensorProto& tensor, DType dtype, std::vector<int64_t> shape,
                                     ExternalFiles& files) {
  FETTLE_TRY(const int64_t size_bytes, file_bytes(dtype, shape));
  FETTLE_TRY(MappedFile part, find_external(tensor, size_bytes, files));
  const auto* bytes = reinterpret_cast<const uint8_t*>(part.bytes.get());
  if (is_packed(dtype)) return unpacked(dtype, std::move(shape), [bytes](int64_t i) { return bytes[i]; });
  // Elements must be aligned to be read in place.
  if (reinterpret_cast<uintptr_t>(part.bytes.get()) % static_cast<uintptr_t>(dtype.element_bytes()) != 0) {
    FETTLE_TRY(TensorBuilder copy, make_tensor(dtype, std::move(shape)));
    std::memcpy(copy.bytes.get(), part.bytes.get(), static_cast<size_t>(size_bytes));
    return std::move(copy).finish();
  }
  return ConstantTensor{dtype, std::move(shape), std::move(part.bytes), size_bytes};
}

}  // namespace

std::string data_type_name(int data_type) {
  if (!TensorProto::DataType_IsValid(data_type)) return fmt::format("unknown type {}", data_type);
  std::string name = TensorProto::DataType_Name(static_cast<TensorProto::DataType>(data_type));
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  return name;
}

Result<ConstantTensor> read_tensor(const TensorProto& tensor, const std::shared_ptr<const void>& owner,
                                   ExternalFiles& files) {
  const auto dtype = element_type(tensor.data_type());
  if (!dtype) return fail(ErrorCode::E603, "tensors of " + data_type_name(tensor.data_type()), tensor.name());
  std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  auto size_bytes = file_bytes(*dtype, shape);
  if (!size_bytes) {
    size_bytes.error().where = tensor.name();
    return fail(std::move(size_bytes.error()));
  }
  const bool is_external = tensor.data_location() == TensorProto::EXTERNAL, is_raw = tensor.has_raw_data();
  const bool is_typed = tensor.float_data_size() + tensor.double_data_size() + tensor.int32_data_size() +
                            tensor.int64_data_size() + tensor.uint64_data_size() + tensor.string_data_size() >
                        0;
  if (is_external + is_raw + is_typed > 1)
    return fail(ErrorCode::E606, "the tensor has its data twice: external, raw or typed", tensor.name());
  if (dtype->is_string() && (is_external || is_raw))
    return fail(ErrorCode::E606, "strings stand in string_data, not in raw or external data", tensor.name());
  if (is_external) return read_external(tensor, *dtype, std::move(shape), files);
  if (!tensor.has_raw_data()) return read_typed_fields(tensor, *dtype, std::move(shape));
  if (static_cast<int64_t>(tensor.raw_data().size()) != *size_bytes) return wrong_length(tensor);
  const auto* raw = reinterpret_cast<const std::byte*>(tensor.raw_data().data());
  if (is_packed(*dtype))
    return unpacked(*dtype, std::move(shape), [raw](int64_t i) { return static_cast<uint8_t>(raw[i]); });
  return ConstantTensor{*dtype, std::move(shape), std::shared_ptr<const std::byte>(owner, raw), *size_bytes};
}

Result<MappedFile> external_bytes(const TensorProto& tensor, ExternalFiles& files) {
  const auto dtype = element_type(tensor.data_type());
  if (!dtype) return fail(ErrorCode::E603, "tensors of " + data_type_name(tensor.data_type()), tensor.name());
  FETTLE_TRY(const int64_t size_bytes, file_bytes(*dtype, {tensor.dims().begin(), tensor.dims().end()}));
  return find_external(tensor, size_bytes, files);
}

Result<ConstantTensor> read_sparse_tensor(const onnx::SparseTensorProto& tensor,
                                          const std::shared_ptr<const void>& owner, ExternalFiles& files) {
  const std::string& name = tensor.values().name();
  FETTLE_TRY(const ConstantTensor values, read_tensor(tensor.values(), owner, files));
  FETTLE_TRY(const ConstantTensor indices, read_tensor(tensor.indices(), owner, files));
  const std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  const auto bad = [&](const std::string& what) { return fail(ErrorCode::E606, "the sparse tensor's " + what, name); };
  const int64_t count = values.n_elems(), rank = std::ssize(shape);
  if (values.shape.size() != 1) return bad("values are no list");
  const bool is_flat = indices.shape == std::vector<int64_t>{count};
  if (indices.dtype != kI64 || (!is_flat && indices.shape != std::vector<int64_t>{count, rank}))
    return bad("indices are not one, or one a dim, for each of its values");
  auto size_bytes = checked_bytes(values.dtype, shape);
  if (!size_bytes || *size_bytes > kMaxSparseBytes)
    return fail(ErrorCode::E608, fmt::format("a sparse tensor of more than {} bytes when it is dense", kMaxSparseBytes),
                name);
  FETTLE_TRY(TensorBuilder dense, make_tensor(values.dtype, shape));
  const auto width = static_cast<size_t>(values.dtype.element_bytes());
  const int64_t n_elems = *size_bytes / static_cast<int64_t>(width);
  const std::span<const int64_t> places = indices.elems<int64_t>();
  int64_t before = -1;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    if (is_flat) {
      at = places[static_cast<size_t>(i)];
    } else {
      for (int64_t d = 0; d < rank; ++d) {
        const int64_t index = places[static_cast<size_t>(i * rank + d)], extent = shape[static_cast<size_t>(d)];
        if (index < 0 || index >= extent) return bad("indices are not within its shape");
        at = at * extent + index;
      }
    }
    if (at < 0 || at >= n_elems) return bad("indices are not within its shape");
    if (at <= before) return bad("indices are not in order, or one is stated twice");
    before = at;
    std::memcpy(dense.bytes.get() + static_cast<size_t>(at) * width,
                values.bytes.get() + static_cast<size_t>(i) * width, width);
  }
  return std::move(dense).finish();
}

}  // namespace fettle::onnx_reader
