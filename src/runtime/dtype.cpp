#include "runtime/dtype.h"

namespace fettle {
namespace {

struct Entry {
  FettleDtype dtype;
  int64_t bytes;
  std::string_view name;
};

constexpr Entry kTable[] = {
    {FETTLE_BOOL, 1, "bool"}, {FETTLE_I8, 1, "i8"},   {FETTLE_U8, 1, "u8"},     {FETTLE_I16, 2, "i16"},
    {FETTLE_U16, 2, "u16"},   {FETTLE_I32, 4, "i32"}, {FETTLE_U32, 4, "u32"},   {FETTLE_I64, 8, "i64"},
    {FETTLE_U64, 8, "u64"},   {FETTLE_F16, 2, "f16"}, {FETTLE_BF16, 2, "bf16"}, {FETTLE_F32, 4, "f32"},
    {FETTLE_F64, 8, "f64"},
};

const Entry* find(int32_t dtype) {
  for (const Entry& entry : kTable)
    if (entry.dtype == dtype) return &entry;
  return nullptr;
}

}  // namespace

int64_t dtype_bytes(int32_t dtype) {
  const Entry* entry = find(dtype);
  return entry == nullptr ? 0 : entry->bytes;
}

std::string_view dtype_name(int32_t dtype) {
  const Entry* entry = find(dtype);
  return entry == nullptr ? "?" : entry->name;
}

std::optional<FettleDtype> find_dtype(std::string_view name) {
  for (const Entry& entry : kTable)
    if (entry.name == name) return entry.dtype;
  return std::nullopt;
}

}  // namespace fettle
