#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[4] += A[4] · B[4, 4], i8 times i8 in i32, on every Armv8: SMULL widens products to 16 bits (the largest, 128·128,
/// fits), SADDLP adds neighbours in 32 bits, ADDP those sums. Exact, sums wrap.
extern const TensorIntrinsicDef neon_smull_intrinsic;

}  // namespace fettle
