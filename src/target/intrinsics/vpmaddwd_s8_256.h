#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[8] += A[4] · B[8, 4], i8 times i8 in i32, with AVX2. As vpmaddwd_256; both operands are sign-extended.
extern const TensorIntrinsicDef vpmaddwd_s8_256_intrinsic;

}  // namespace fettle
