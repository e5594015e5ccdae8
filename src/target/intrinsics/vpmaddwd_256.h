#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[8] += A[4] · B[8, 4], u8 times i8 in i32, for machines with AVX2 and no dot product of bytes. vpmaddubsw would do
/// in one step what this does in two, but saturates at 16 bits (255·127·2 does not fit). So bytes become 16-bit
/// numbers, the even ones and the odd ones of each pair apart, and vpmaddwd multiplies and adds these in 32 bits:
/// exact.
extern const TensorIntrinsicDef vpmaddwd_256_intrinsic;

}  // namespace fettle
