#pragma once

#include "target/tensor_intrinsic.h"

namespace fettle {

/// C[16] += A[4] · B[16, 4], i8 times i8 in i32, on a machine whose dot product takes unsigned times signed bytes
/// (AVX-512 VNNI):
///   Σ a·b = Σ (a + 128)·b − 128·Σ b,   a + 128 = a xor 0x80 as u8
/// The second sum depends on B alone: the rows of a tile share it. Exact, sums wrap. Costs one vpdpbusd and one
/// subtraction for each vector of the result, so it is half as fast as u8 times i8.
extern const TensorIntrinsicDef vpdpbusd_s8_512_intrinsic;

}  // namespace fettle
