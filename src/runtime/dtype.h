#pragma once
// Names and sizes of the element types that cross the interface of compiled models.

#include <optional>
#include <string_view>

#include "rt/model_api.h"

namespace fettle {

/// Bytes of one element; 0 for a number that is no type.
int64_t dtype_bytes(int32_t dtype);

/// "f32", "i8", "bool", …; "?" for a number that is no type. The spelling of ir's DType.
std::string_view dtype_name(int32_t dtype);

/// The inverse of dtype_name.
std::optional<FettleDtype> find_dtype(std::string_view name);

}  // namespace fettle
