#include "pjrt/array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <utility>

#include "runtime/tensor.h"

namespace fettle::pjrt {
namespace {

constexpr ElementInfo kElements[] = {
    {PJRT_Buffer_Type_PRED, "PRED", 1, FETTLE_BOOL, false, 0, false},
    {PJRT_Buffer_Type_S8, "S8", 1, FETTLE_I8, false, 0, false},
    {PJRT_Buffer_Type_S16, "S16", 2, FETTLE_I16, false, 0, false},
    {PJRT_Buffer_Type_S32, "S32", 4, FETTLE_I32, false, 0, false},
    {PJRT_Buffer_Type_S64, "S64", 8, FETTLE_I64, false, 0, false},
    {PJRT_Buffer_Type_U8, "U8", 1, FETTLE_U8, false, 0, false},
    {PJRT_Buffer_Type_U16, "U16", 2, FETTLE_U16, false, 0, false},
    {PJRT_Buffer_Type_U32, "U32", 4, FETTLE_U32, false, 0, false},
    {PJRT_Buffer_Type_U64, "U64", 8, FETTLE_U64, false, 0, false},
    {PJRT_Buffer_Type_F16, "F16", 2, FETTLE_F16, false, 0, false},
    {PJRT_Buffer_Type_F32, "F32", 4, FETTLE_F32, false, 0, false},
    {PJRT_Buffer_Type_F64, "F64", 8, FETTLE_F64, false, 0, false},
    {PJRT_Buffer_Type_BF16, "BF16", 2, FETTLE_BF16, false, 0, false},
    {PJRT_Buffer_Type_C64, "C64", 8, FETTLE_F32, true, 0, false},
    {PJRT_Buffer_Type_C128, "C128", 16, FETTLE_F64, true, 0, false},
    {PJRT_Buffer_Type_F8E5M2, "F8E5M2", 1, FETTLE_F8E5M2, false, 0, false},
    {PJRT_Buffer_Type_F8E4M3FN, "F8E4M3FN", 1, FETTLE_F8E4M3FN, false, 0, false},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, "F8E4M3B11FNUZ", 1, 0, false, 0, false},
    {PJRT_Buffer_Type_F8E5M2FNUZ, "F8E5M2FNUZ", 1, FETTLE_F8E5M2FNUZ, false, 0, false},
    {PJRT_Buffer_Type_F8E4M3FNUZ, "F8E4M3FNUZ", 1, FETTLE_F8E4M3FNUZ, false, 0, false},
    {PJRT_Buffer_Type_S4, "S4", 1, FETTLE_I4, false, 4, true},
    {PJRT_Buffer_Type_U4, "U4", 1, FETTLE_U4, false, 4, false},
    {PJRT_Buffer_Type_TOKEN, "TOKEN", 0, 0, false, 0, false},
    {PJRT_Buffer_Type_S2, "S2", 1, FETTLE_I2, false, 2, true},
    {PJRT_Buffer_Type_U2, "U2", 1, FETTLE_U2, false, 2, false},
    {PJRT_Buffer_Type_F8E4M3, "F8E4M3", 1, 0, false, 0, false},
    {PJRT_Buffer_Type_F8E3M4, "F8E3M4", 1, 0, false, 0, false},
    {PJRT_Buffer_Type_F8E8M0FNU, "F8E8M0FNU", 1, FETTLE_F8E8M0, false, 0, false},
    {PJRT_Buffer_Type_F4E2M1FN, "F4E2M1FN", 1, FETTLE_F4E2M1, false, 4, false},
};

struct NamedType {
  DType dtype;
  PJRT_Buffer_Type type, complex_type;
};
constexpr NamedType kTypes[] = {
    {kBool, PJRT_Buffer_Type_PRED, PJRT_Buffer_Type_INVALID},
    {kI8, PJRT_Buffer_Type_S8, PJRT_Buffer_Type_INVALID},
    {kI16, PJRT_Buffer_Type_S16, PJRT_Buffer_Type_INVALID},
    {kI32, PJRT_Buffer_Type_S32, PJRT_Buffer_Type_INVALID},
    {kI64, PJRT_Buffer_Type_S64, PJRT_Buffer_Type_INVALID},
    {kU8, PJRT_Buffer_Type_U8, PJRT_Buffer_Type_INVALID},
    {kU16, PJRT_Buffer_Type_U16, PJRT_Buffer_Type_INVALID},
    {kU32, PJRT_Buffer_Type_U32, PJRT_Buffer_Type_INVALID},
    {kU64, PJRT_Buffer_Type_U64, PJRT_Buffer_Type_INVALID},
    {kF16, PJRT_Buffer_Type_F16, PJRT_Buffer_Type_INVALID},
    {kBF16, PJRT_Buffer_Type_BF16, PJRT_Buffer_Type_INVALID},
    {kF32, PJRT_Buffer_Type_F32, PJRT_Buffer_Type_C64},
    {kF64, PJRT_Buffer_Type_F64, PJRT_Buffer_Type_C128},
    {kI4, PJRT_Buffer_Type_S4, PJRT_Buffer_Type_INVALID},
    {kU4, PJRT_Buffer_Type_U4, PJRT_Buffer_Type_INVALID},
    {kI2, PJRT_Buffer_Type_S2, PJRT_Buffer_Type_INVALID},
    {kU2, PJRT_Buffer_Type_U2, PJRT_Buffer_Type_INVALID},
    {kF8E4M3FN, PJRT_Buffer_Type_F8E4M3FN, PJRT_Buffer_Type_INVALID},
    {kF8E4M3FNUZ, PJRT_Buffer_Type_F8E4M3FNUZ, PJRT_Buffer_Type_INVALID},
    {kF8E5M2, PJRT_Buffer_Type_F8E5M2, PJRT_Buffer_Type_INVALID},
    {kF8E5M2FNUZ, PJRT_Buffer_Type_F8E5M2FNUZ, PJRT_Buffer_Type_INVALID},
    {kF8E8M0, PJRT_Buffer_Type_F8E8M0FNU, PJRT_Buffer_Type_INVALID},
    {kF4E2M1, PJRT_Buffer_Type_F4E2M1FN, PJRT_Buffer_Type_INVALID},
};

std::vector<int64_t> dense_strides(const ArrayShape& shape) { return *strides_of(shape, shape.minor_to_major); }

void copy_dims(const ArrayShape& shape, size_t dim, char* to, const int64_t* to_strides, const char* from,
               const int64_t* from_strides, size_t bytes) {
  if (dim == shape.dims.size()) {
    std::memcpy(to, from, bytes);
    return;
  }
  const bool is_last = dim + 1 == shape.dims.size();
  const auto run = static_cast<int64_t>(bytes);
  if (is_last && to_strides[dim] == run && from_strides[dim] == run) {
    std::memcpy(to, from, static_cast<size_t>(shape.dims[dim]) * bytes);
    return;
  }
  for (int64_t i = 0; i < shape.dims[dim]; ++i)
    copy_dims(shape, dim + 1, to + i * to_strides[dim], to_strides, from + i * from_strides[dim], from_strides, bytes);
}

}  // namespace

const ElementInfo* find_element(PJRT_Buffer_Type type) {
  for (const ElementInfo& element : kElements)
    if (element.type == type) return &element;
  return nullptr;
}

std::optional<PJRT_Buffer_Type> buffer_type(const stablehlo::ElementType& element) {
  if (element.quantization || !element.unknown.empty()) return std::nullopt;
  for (const NamedType& named : kTypes) {
    if (!(named.dtype == element.dtype)) continue;
    const PJRT_Buffer_Type type = element.is_complex ? named.complex_type : named.type;
    return type == PJRT_Buffer_Type_INVALID ? std::nullopt : std::optional(type);
  }
  return std::nullopt;
}

std::vector<int64_t> ArrayShape::tensor_dims() const {
  std::vector<int64_t> made = dims;
  if (find_element(type)->is_complex) made.push_back(2);
  return made;
}

std::string ArrayShape::to_string() const {
  return fmt::format("{}[{}]", find_element(type)->name, fmt::join(dims, ", "));
}

Result<ShapeRef> make_shape(PJRT_Buffer_Type type, std::span<const int64_t> dims) {
  const ElementInfo* element = find_element(type);
  if (!element) return fail(ErrorCode::E709, fmt::format("there is no type {} of elements", static_cast<int>(type)));
  auto shape = std::make_shared<ArrayShape>();
  shape->type = type;
  shape->dims.assign(dims.begin(), dims.end());
  const std::optional<int64_t> count = count_elems(dims);
  if (!count) return fail(ErrorCode::E709, fmt::format("no array has the shape [{}]", fmt::join(dims, ", ")));
  shape->n_elems = *count;
  shape->n_bytes = *count * element->bytes;
  for (size_t d = dims.size(); d > 0; --d) shape->minor_to_major.push_back(static_cast<int64_t>(d - 1));
  return shape;
}

std::optional<std::vector<int64_t>> strides_of(const ArrayShape& shape, std::span<const int64_t> minor_to_major) {
  const size_t rank = shape.dims.size();
  if (minor_to_major.size() != rank) return std::nullopt;
  std::vector<int64_t> strides(rank, 0);
  std::vector<bool> seen(rank, false);
  int64_t stride = find_element(shape.type)->bytes;
  for (const int64_t dim : minor_to_major) {
    if (dim < 0 || dim >= static_cast<int64_t>(rank) || seen[static_cast<size_t>(dim)]) return std::nullopt;
    seen[static_cast<size_t>(dim)] = true;
    strides[static_cast<size_t>(dim)] = stride;
    stride *= shape.dims[static_cast<size_t>(dim)];
  }
  return strides;
}

Result<std::vector<int64_t>> strides_of(const ArrayShape& shape, const PJRT_Buffer_MemoryLayout& layout) {
  if (layout.type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    if (layout.strides.num_byte_strides != shape.dims.size())
      return fail(ErrorCode::E709, fmt::format("a layout has {} strides, and {} has {} dims",
                                               layout.strides.num_byte_strides, shape.to_string(), shape.dims.size()));
    return std::vector<int64_t>(layout.strides.byte_strides,
                                layout.strides.byte_strides + layout.strides.num_byte_strides);
  }
  if (layout.tiled.num_tiles > 0) return fail(ErrorCode::E709, "a layout has tiles: Fettle's arrays have none");
  auto strides = strides_of(shape, std::span(layout.tiled.minor_to_major, layout.tiled.minor_to_major_size));
  if (!strides) return fail(ErrorCode::E709, fmt::format("a layout is none of {}", shape.to_string()));
  return *std::move(strides);
}

bool is_dense(const ArrayShape& shape, const int64_t* strides) {
  int64_t expected = find_element(shape.type)->bytes;
  for (size_t d = shape.dims.size(); d-- > 0;) {
    if (shape.dims[d] != 1 && strides[d] != expected) return shape.n_elems == 0;
    expected *= shape.dims[d];
  }
  return true;
}

void copy_strided(const ArrayShape& shape, void* to, const int64_t* to_strides, const void* from,
                  const int64_t* from_strides) {
  const bool to_dense = !to_strides || is_dense(shape, to_strides);
  const bool from_dense = !from_strides || is_dense(shape, from_strides);
  if (shape.n_bytes == 0) return;
  if (to_dense && from_dense) {
    std::memcpy(to, from, static_cast<size_t>(shape.n_bytes));
    return;
  }
  const std::vector<int64_t> dense = dense_strides(shape);
  copy_dims(shape, 0, static_cast<char*>(to), to_strides ? to_strides : dense.data(), static_cast<const char*>(from),
            from_strides ? from_strides : dense.data(), static_cast<size_t>(find_element(shape.type)->bytes));
}

void normalize_elements(const ArrayShape& shape, void* data) {
  const ElementInfo& element = *find_element(shape.type);
  if (element.low_bits == 0) return;
  auto* bytes = static_cast<uint8_t*>(data);
  const int shift = 8 - element.low_bits;
  for (int64_t i = 0; i < shape.n_elems; ++i) {
    const auto high = static_cast<uint8_t>(bytes[i] << shift);
    bytes[i] = element.is_sign_extended ? static_cast<uint8_t>(static_cast<int8_t>(high) >> shift)
                                        : static_cast<uint8_t>(high >> shift);
  }
}

}  // namespace fettle::pjrt
