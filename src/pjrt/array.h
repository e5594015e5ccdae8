#pragma once
// Types and shapes of arrays, as PJRT and as compiled models have them.

#include <xla/pjrt/c/pjrt_c_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/stablehlo/module.h"
#include "rt/model_api.h"

namespace fettle::pjrt {

/// A type of elements. Those of less than a byte take one each; a complex one is two numbers, one after the other.
struct ElementInfo {
  PJRT_Buffer_Type type;
  const char* name;  // "F32"
  int bytes;
  int dtype;              // FettleDtype of each number; 0: nothing computes with it
  bool is_complex;        // the model's tensor has a last dim of 2
  int low_bits;           // that count of each byte; 0: all of them
  bool is_sign_extended;  // the others repeat the highest of these, else they are 0
};

/// Null for a number that is no type.
const ElementInfo* find_element(PJRT_Buffer_Type type);
/// Nothing where PJRT has no such type.
std::optional<PJRT_Buffer_Type> buffer_type(const stablehlo::ElementType& element);

/// Dense, row-major. A token is an array without elements.
struct ArrayShape {
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;
  int64_t n_elems = 1;
  int64_t n_bytes = 0;
  std::vector<int64_t> minor_to_major;  // n-1, …, 0

  /// The dims of the model's tensor.
  std::vector<int64_t> tensor_dims() const;
  std::string to_string() const;  // "F32[2, 3]"
};
using ShapeRef = std::shared_ptr<const ArrayShape>;

/// E709 there is no such type, an extent is negative, or there are more than 2^40 elements
Result<ShapeRef> make_shape(PJRT_Buffer_Type type, std::span<const int64_t> dims);

/// Strides in bytes of an array whose dims lie in this order, the fastest first; nothing where it is no permutation.
std::optional<std::vector<int64_t>> strides_of(const ArrayShape& shape, std::span<const int64_t> minor_to_major);
/// The strides that a layout says, in bytes. E709 it has tiles, or does not fit
Result<std::vector<int64_t>> strides_of(const ArrayShape& shape, const PJRT_Buffer_MemoryLayout& layout);

/// Copies each element. Strides are in bytes, any of them negative; null: dense, row-major.
void copy_strided(const ArrayShape& shape, void* to, const int64_t* to_strides, const void* from,
                  const int64_t* from_strides);
bool is_dense(const ArrayShape& shape, const int64_t* strides);
/// The bits of elements of less than a byte that do not count become what compiled code takes.
void normalize_elements(const ArrayShape& shape, void* data);

}  // namespace fettle::pjrt
