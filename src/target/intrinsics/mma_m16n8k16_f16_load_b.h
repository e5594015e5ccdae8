#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// D[16, 8] = B[16, 8]: the right factor of mma_m16n8k16_f16 from memory to the registers of a warp (D: scope "fragment"). From
/// rows in shared memory that begin at multiples of 16 bytes by `ldmatrix.trans` (PTX ISA).
extern const TensorIntrinsicDef mma_m16n8k16_f16_load_b_intrinsic;

}  // namespace fettle
