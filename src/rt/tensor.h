#pragma once
// Tensors as they cross the interface of models.

#include <string.h>

#include "rt/model_api.h"
#include "rt/text.h"

namespace fettle::rt {

/// Element types that cross the interface, in the order of their numbers.
struct ElementType {
  FettleDtype dtype;
  int32_t bytes;
  const char* name;  // the spelling of ir's DType
};
constexpr ElementType kElementTypes[] = {
    {FETTLE_BOOL, 1, "bool"},
    {FETTLE_I8, 1, "i8"},
    {FETTLE_U8, 1, "u8"},
    {FETTLE_I16, 2, "i16"},
    {FETTLE_U16, 2, "u16"},
    {FETTLE_I32, 4, "i32"},
    {FETTLE_U32, 4, "u32"},
    {FETTLE_I64, 8, "i64"},
    {FETTLE_U64, 8, "u64"},
    {FETTLE_F16, 2, "f16"},
    {FETTLE_BF16, 2, "bf16"},
    {FETTLE_F32, 4, "f32"},
    {FETTLE_F64, 8, "f64"},
    {FETTLE_I4, 1, "i4"},
    {FETTLE_U4, 1, "u4"},
    {FETTLE_I2, 1, "i2"},
    {FETTLE_U2, 1, "u2"},
    {FETTLE_F8E4M3FN, 1, "f8e4m3fn"},
    {FETTLE_F8E4M3FNUZ, 1, "f8e4m3fnuz"},
    {FETTLE_F8E5M2, 1, "f8e5m2"},
    {FETTLE_F8E5M2FNUZ, 1, "f8e5m2fnuz"},
    {FETTLE_F8E8M0, 1, "f8e8m0"},
    {FETTLE_F4E2M1, 1, "f4e2m1"},
    {FETTLE_STRING, 16, "string"},
};
/// Null for a number that is no type.
inline const ElementType* find_element_type(int32_t dtype) {
  return dtype >= FETTLE_BOOL && dtype <= FETTLE_STRING ? &kElementTypes[dtype - FETTLE_BOOL] : nullptr;
}

/// Element i of an array of structs that begin with their size, which may be larger than this version's.
template <class Struct>
Struct* nth(Struct* array, int32_t i) {
  const auto* bytes = reinterpret_cast<const char*>(array) + int64_t{i} * int64_t{array->struct_bytes};
  return reinterpret_cast<Struct*>(const_cast<char*>(bytes));
}

/// What a caller gave, as this version knows it. False where it is smaller than any version's (least_bytes), or sets a
/// field that this version does not know. What the caller's version does not know is zero.
template <class Struct>
bool take_struct(const Struct* given, Struct& taken, uint32_t least_bytes = sizeof(Struct)) {
  if (given->struct_bytes < least_bytes || given->struct_bytes % alignof(Struct) != 0) return false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (uint32_t i = sizeof(Struct); i < given->struct_bytes; ++i)
    if (bytes[i] != 0) return false;
  taken = Struct{};
  memcpy(&taken, given, given->struct_bytes < sizeof(Struct) ? given->struct_bytes : sizeof(Struct));
  taken.struct_bytes = sizeof(Struct);
  return true;
}

/// The most axes that a tensor may have.
constexpr int32_t kMaxRank = 64;

/// The product of a type's size and extents; -1 where it exceeds 2^62, or an extent is negative.
int64_t dense_bytes(int32_t dtype, const int64_t* shape, int32_t rank);

/// Whether the elements lie densely, row-major, one after the other.
bool is_dense(const int64_t* shape, const int64_t* strides, int32_t rank);

/// Writes row-major strides of `shape`.
void dense_strides(const int64_t* shape, int32_t rank, int64_t* strides);

/// Elements from one place to another; strides in elements, null: dense. The places must not overlap.
void copy_elements(void* to, const int64_t* to_strides, const void* from, const int64_t* from_strides,
                   const int64_t* shape, int32_t rank, int32_t dtype);

/// "f32[N, 3]", with what an open extent is called; without a shape: "f32 of rank 2".
Text& operator<<(Text& text, const FettleTensor& tensor);

}  // namespace fettle::rt
