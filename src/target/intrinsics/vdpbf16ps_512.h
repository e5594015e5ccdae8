#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[16] += A[2] · B[16, 2], bf16 times bf16 in f32, by one vdpbf16ps on 512 bits (AVX-512 BF16). Products are exact;
/// the instruction adds that of k = 1 first, then that of k = 0, each sum rounded to the nearest f32 (half to even). It
/// takes denormal operands for zero and flushes denormal results to zero. So results differ from the meaning's as those
/// of another order of summation do, and by at most 2^-126 a step where numbers are that small.
extern const TensorIntrinsicDef vdpbf16ps_512_intrinsic;

}  // namespace fettle
