#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// D[16, 16] = A[16, 16]: the left factor of mma_m16n8k16_f16 from memory to the registers of a warp (D: scope "fragment"). From
/// rows in shared memory that begin at multiples of 16 bytes by `ldmatrix` (PTX ISA).
extern const TensorIntrinsicDef mma_m16n8k16_f16_load_a_intrinsic;

}  // namespace fettle
