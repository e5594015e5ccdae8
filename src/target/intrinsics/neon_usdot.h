#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[4] += A[4] · B[4, 4], u8 times i8 in i32, by one USDOT (Armv8.6 integer matrix multiplication). Exact, sums wrap.
extern const TensorIntrinsicDef neon_usdot_intrinsic;

}  // namespace fettle
