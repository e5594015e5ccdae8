#pragma once
// What buffers hold while a kernel is measured.

#include <cstdint>

#include "ir/type.h"

namespace fettle {

/// Writes `elems` values that depend on (seed, stream) alone:
///   floats   ±1/8, ±2/8 … ±8/8: sums of up to 2^18 products of two are exact in f32, so a schedule that only changes
///            their order must give the same bits
///   i8, i16, i32   -4 … 4;  u8 … u64  0 … 8;  bool  0 or 1
///   i64      0, since they are indices, which must stay in bounds
void fill_random(void* data, int64_t elems, DType dtype, uint64_t seed, uint64_t stream);

}  // namespace fettle
