#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[16, 8] += A[16, 16] @ B[16, 8] by one warp: f16 factors, sums in f32, by the tensor cores of NVIDIA's GPUs from
/// sm_80 on (PTX ISA, "mma.m16n8k16 with floating point type"). Products are exact; the order of the sums is the
/// machine's. A, B and C lie where the whole warp sees them, or in registers of the warp (scope "fragment"), where
/// mma_m16n8k16_f16_load_a, …_load_b and …_fill put them and …_store takes them from.
extern const TensorIntrinsicDef mma_m16n8k16_f16_intrinsic;
/// Targets with tensor cores that know it.
bool has_mma_m16n8k16_f16(const Target& target);

}  // namespace fettle
