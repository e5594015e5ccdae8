#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[16, 8] += A[16, 16] @ B[16, 8] by one warp: f16 factors, sums in f32, by the tensor cores of NVIDIA's GPUs from
/// sm_80 on (PTX ISA, "mma.m16n8k16 with floating point type"). Products are exact; the order of the sums is the
/// machine's. Each lane reads its fragments of A and B and reads and writes its fragment of C, so all three lie where
/// the whole warp sees them.
extern const TensorIntrinsicDef mma_m16n8k16_f16_intrinsic;

}  // namespace fettle
