#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[4] += A[4] · B[4, 4], u8 times u8 in i32, by one UDOT (Armv8.2 dot product). Exact, sums wrap.
extern const TensorIntrinsicDef neon_udot_intrinsic;

}  // namespace fettle
