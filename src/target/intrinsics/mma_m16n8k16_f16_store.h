#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// D[16, 8] = C[16, 8]: sums of mma_m16n8k16_f16 from the registers of a warp (C: scope "fragment") to memory.
extern const TensorIntrinsicDef mma_m16n8k16_f16_store_intrinsic;

}  // namespace fettle
