#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[16, 8] = 0: sums of mma_m16n8k16_f16 in the registers of a warp (C: scope "fragment") before the first product.
extern const TensorIntrinsicDef mma_m16n8k16_f16_fill_intrinsic;

}  // namespace fettle
