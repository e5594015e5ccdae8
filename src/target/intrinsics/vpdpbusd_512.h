#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[16] += A[4] · B[16, 4], u8 times i8 in i32, by one vpdpbusd on 512 bits (AVX-512 VNNI). Four bytes of A go to all
/// lanes; B is dense, so that it lies in memory as one vector. Exact for all operands: vpdpbusd does not saturate, sums
/// wrap.
extern const TensorIntrinsicDef vpdpbusd_512_intrinsic;

}  // namespace fettle
