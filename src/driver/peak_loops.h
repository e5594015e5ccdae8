#pragma once
// Loops that do nothing but one kind of multiply-add, on registers: what a processor reaches with numbers that Fettle's
// code generator does not use yet.

#include <cstdint>
#include <string_view>

namespace fettle {

/// A loop for one kind of number.
struct PeakLoop {
  std::string_view instruction;  // "vpdpbusd"; empty: this processor has none
  double ops = 0;                // of `run(n)`, for each of n: a multiply-add counts as two
  void (*run)(int64_t n) = nullptr;
};

/// 8-bit integers, summed in 32 bits. AVX2's three instructions where there is no dot product.
PeakLoop int8_loop();
/// bfloat16, summed in fp32. Null where the processor has none.
PeakLoop bf16_loop();

}  // namespace fettle
