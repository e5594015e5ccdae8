#include "frontend/stablehlo/elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "frontend/stablehlo/types.h"

namespace fettle::stablehlo {
namespace {

// As many numbers as this are written one by one.
constexpr int64_t kMaxWritten = 64;

tl::unexpected<Diagnostic> wrong_count(const Type& type, int64_t given, int64_t wanted) {
  return fail(ErrorCode::E602,
              fmt::format("a constant of {} has {} numbers instead of {}", type.to_string(), given, wanted));
}

// data of shape [elements, parts] or [elements] → DenseElements, a splat where all elements are the same bytes.
DenseElements shaped(const Type& type, ConstantTensor data) {
  const int64_t element_bytes = data.dtype.element_bytes() * parts_of(type.element);
  const int64_t count = data.size_bytes / element_bytes;
  const auto* bytes = data.bytes.get();
  const bool is_splat = count >= 1 && std::memcmp(bytes, bytes + element_bytes,
                                                  static_cast<size_t>(data.size_bytes - element_bytes)) == 0;
  data.shape = is_splat ? std::vector<int64_t>{} : type.shape;
  if (is_splat) data.size_bytes = element_bytes;
  if (type.element.is_complex) data.shape.push_back(2);
  return {type, std::move(data), is_splat};
}

Result<> refuse_unstored(const ElementType& element) {
  if (element.unknown != "tf32") return {};
  return fail(ErrorCode::E603, "constants of tf32 are not supported");
}

void store_bits(std::byte* at, DType dtype, int64_t bits) {
  std::memcpy(at, &bits, static_cast<size_t>(dtype.element_bytes()));  // the low bytes
}

}  // namespace

Result<int64_t> count_elements(const Type& type, const Limits& limits) {
  if (type.kind != Type::Kind::kTensor || !type.is_ranked || std::ranges::count(type.shape, kDynamic) > 0)
    return fail(ErrorCode::E602, "a constant of type " + type.to_string() + ", whose extents are not known");
  FETTLE_TRY(const int64_t size_bytes, checked_bytes(type.element.dtype, type.shape));
  const int64_t count = size_bytes / type.element.dtype.element_bytes();
  FETTLE_TRY_VOID(check_limit(limits, &Limits::elements, count, type.to_string()));
  return count;
}

Result<DenseElements> elements_of(const Type& type, std::span<const Literal> literals, const Limits& limits) {
  FETTLE_TRY_VOID(refuse_unstored(type.element));
  FETTLE_TRY(const int64_t count, count_elements(type, limits));
  const int64_t parts = parts_of(type.element);
  int64_t given = std::ssize(literals);
  if (given != count * parts && given != parts) return wrong_count(type, given, count * parts);
  if (count == 0) literals = {}, given = 0;  // a splat of nothing
  const DType dtype = type.element.dtype;
  const SmallFloat* small = small_float_named(type.element.unknown);
  std::vector<double> values(literals.size());
  for (size_t i = 0; i < literals.size(); ++i)
    values[i] = literals[i].kind == Literal::Kind::kFloat ? literals[i].value : static_cast<double>(literals[i].bits);
  FETTLE_TRY(TensorBuilder builder, make_tensor(dtype, {given}));
  const bool is_float = dtype.is_float() || dtype.is_small_float();
  if (is_float && given > 0) {
    FETTLE_TRY(const ConstantTensor rounded, to_tensor(values, dtype, {given}));
    std::memcpy(builder.bytes.get(), rounded.data(), static_cast<size_t>(rounded.size_bytes));
  }
  for (size_t i = 0; i < literals.size(); ++i) {
    std::byte* at = builder.bytes.get() + static_cast<int64_t>(i) * dtype.element_bytes();
    const Literal& literal = literals[i];
    if (small && literal.kind != Literal::Kind::kBits)
      store_bits(at, dtype, small_float_code(*small, values[i]));
    else if (dtype.is_bool())
      store_bits(at, dtype, literal.bits != 0);
    else if (literal.kind == Literal::Kind::kBits || !is_float)
      store_bits(at, dtype, literal.kind == Literal::Kind::kFloat ? static_cast<int64_t>(literal.value) : literal.bits);
  }
  return shaped(type, std::move(builder).finish());
}

Result<DenseElements> elements_of(const Type& type, std::span<const std::byte> bytes, const Limits& limits) {
  FETTLE_TRY_VOID(refuse_unstored(type.element));
  FETTLE_TRY(const int64_t count, count_elements(type, limits));
  const DType dtype = type.element.dtype;
  const int64_t parts = parts_of(type.element), given = std::ssize(bytes), step = dtype.element_bytes() * parts;
  const bool is_packed = dtype.is_bool() && given != count && given == (count + 7) / 8;
  if (!is_packed && given != count * step && given != step)
    return fail(ErrorCode::E602,
                fmt::format("a constant of {} has {} bytes instead of {}", type.to_string(), given, count * step));
  if (count == 0) bytes = {};  // a splat of nothing
  const bool is_splat = !is_packed && given != count * step && count > 0;
  const int64_t numbers = is_splat ? parts : count * parts;
  FETTLE_TRY(TensorBuilder builder, make_tensor(dtype, {numbers}));
  if (dtype.is_bool()) {
    for (int64_t i = 0; i < numbers; ++i) {
      const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(is_packed ? i / 8 : i)]);
      builder.bytes.get()[i] = static_cast<std::byte>(is_packed ? byte >> (i % 8) & 1 : byte != 0);
    }
  } else if (!bytes.empty()) {
    std::memcpy(builder.bytes.get(), bytes.data(), bytes.size());
  }
  return shaped(type, std::move(builder).finish());
}

namespace {

std::string number_text(const ElementType& element, const ConstantTensor& data, int64_t i) {
  const ConstantTensor flat = {data.dtype, {data.size_bytes / data.dtype.element_bytes()}, data.bytes, data.size_bytes};
  if (data.dtype.is_bool()) return flat.int_at(i) ? "true" : "false";
  if (element.unknown.empty() && (data.dtype.is_float() || data.dtype.is_small_float())) {
    const double value = flat.at(i);
    if (data.dtype.is_float() && value - value == 0) return float_text(data.dtype, value);
  } else if (element.unknown.empty()) {
    if (data.dtype == kU64) return fmt::format("{}", static_cast<uint64_t>(flat.int_at(i)));
    return fmt::format("{}", flat.int_at(i));
  }
  uint64_t bits = 0;
  const int size = data.dtype.element_bytes();
  std::memcpy(&bits, data.bytes.get() + i * size, static_cast<size_t>(size));
  return fmt::format("0x{:0{}X}", bits, 2 * size);
}

// Elements from `next` on, within brackets for each dim from `dim` on.
std::string nested_text(const DenseElements& elements, size_t dim, int64_t& next) {
  if (dim == elements.type.shape.size()) {
    const ElementType& element = elements.type.element;
    const int64_t at = next++;
    if (!element.is_complex) return number_text(element, elements.data, at);
    return fmt::format("({}, {})", number_text(element, elements.data, 2 * at),
                       number_text(element, elements.data, 2 * at + 1));
  }
  std::vector<std::string> parts;
  for (int64_t i = 0; i < elements.type.shape[dim]; ++i) parts.push_back(nested_text(elements, dim + 1, next));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

std::string to_text(const DenseElements& elements) {
  const int64_t numbers = elements.data.size_bytes / elements.data.dtype.element_bytes();
  const std::string type = elements.type.to_string();
  if (numbers == 0) return "dense<> : " + type;
  int64_t next = 0;
  if (elements.is_splat)
    return fmt::format("dense<{}> : {}", nested_text(elements, elements.type.shape.size(), next), type);
  if (numbers <= kMaxWritten) return fmt::format("dense<{}> : {}", nested_text(elements, 0, next), type);
  std::string hex;
  hex.reserve(static_cast<size_t>(elements.data.size_bytes) * 2);
  for (int64_t i = 0; i < elements.data.size_bytes; ++i) {
    const auto byte = static_cast<uint8_t>(elements.data.bytes.get()[i]);
    hex += "0123456789ABCDEF"[byte >> 4];
    hex += "0123456789ABCDEF"[byte & 15];
  }
  return fmt::format("dense<\"0x{}\"> : {}", hex, type);
}

}  // namespace fettle::stablehlo
