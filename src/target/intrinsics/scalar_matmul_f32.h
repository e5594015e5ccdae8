#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[2, 4] += A[2, 4] @ B[4, 4] in scalar arithmetic: for every target, to try the machinery on.
extern const TensorIntrinsicDef scalar_matmul_f32_intrinsic;

}  // namespace fettle
