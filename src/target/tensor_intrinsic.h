#pragma once
// Tensor intrinsics: pieces of work that a machine does in one instruction, or a few. Meaning and implementation are
// both loop programs, one file each in intrinsics/.

#include <span>
#include <string_view>

#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// `meaning` is a nest around one block without init, over buffers of the tile's shape:
///   for i in 2: for j in 4: for k in 4: block C(…): C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
/// `implementation` takes the same buffers, whose strides (but the innermost, which is 1) are integer parameters in the
/// buffers' order, and computes the same.
struct TensorIntrinsicDef {
  std::string_view name;
  std::string_view meaning;         // in the text form
  std::string_view implementation;  // in the text form
  bool (*available)(const Target&);
};

/// Every intrinsic, from the listing of target/intrinsics/.
std::span<const TensorIntrinsicDef* const> tensor_intrinsics();
/// The intrinsic named `name`, or null.
const TensorIntrinsicDef* find_tensor_intrinsic(std::string_view name);
/// Its programs, parsed once a thread.
Func meaning_of(const TensorIntrinsicDef& intrinsic);
Func implementation_of(const TensorIntrinsicDef& intrinsic);

}  // namespace fettle
