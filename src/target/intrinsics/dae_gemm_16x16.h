#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[16] += B[16, 16] @ A[16] in 8-bit integers with 32-bit sums: one cycle of the simulated accelerator. A in scope
/// inp, B in wgt, C in acc.
extern const TensorIntrinsicDef dae_gemm_16x16_intrinsic;

}  // namespace fettle
