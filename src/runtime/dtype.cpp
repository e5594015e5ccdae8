#include "runtime/dtype.h"

#include "rt/tensor.h"

namespace fettle {
int64_t dtype_bytes(int32_t dtype) {
  const rt::ElementType* type = rt::find_element_type(dtype);
  return type == nullptr ? 0 : type->bytes;
}

std::string_view dtype_name(int32_t dtype) {
  const rt::ElementType* type = rt::find_element_type(dtype);
  return type == nullptr ? "?" : type->name;
}

std::optional<FettleDtype> find_dtype(std::string_view name) {
  for (const rt::ElementType& type : rt::kElementTypes)
    if (type.name == name) return type.dtype;
  return std::nullopt;
}

}  // namespace fettle
