#pragma once
// Loops that do nothing but arithmetic, on registers.

#include <cstdint>
#include <string_view>

namespace fettle {

/// A loop for one kind of number.
struct PeakLoop {
  std::string_view instruction;  // "vpdpbusd"; empty: this processor has none
  double ops = 0;                // of `run(n)`, for each of n: a multiply-add counts as two, but with fp32
  void (*run)(int64_t n) = nullptr;
};

/// fp32: multiply-adds, sums, products and maxima in equal parts.
PeakLoop fp32_loop();
/// 8-bit integers, summed in 32 bits. AVX2's three instructions where there is no dot product.
PeakLoop int8_loop();
/// bfloat16, summed in fp32. Null where the processor has none.
PeakLoop bf16_loop();

}  // namespace fettle
