#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[8] += A[4] · B[8, 4], u8 times i8 in i32, by one vpdpbusd on 256 bits: AVX-VNNI, or AVX-512 VNNI with VL. As
/// vpdpbusd_512.
extern const TensorIntrinsicDef vpdpbusd_256_intrinsic;

}  // namespace fettle
