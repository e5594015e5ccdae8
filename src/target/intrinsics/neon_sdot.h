#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[4] += A[4] · B[4, 4], i8 times i8 in i32, by one SDOT (Armv8.2 dot product). Exact, sums wrap.
extern const TensorIntrinsicDef neon_sdot_intrinsic;

}  // namespace fettle
