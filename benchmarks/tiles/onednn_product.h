#pragma once
// oneDNN's products of bf16 and of bytes, with constant weights in a layout of its own choice.

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "harness/paired.h"

namespace fettle::bench {

/// C[m, n] = A[m, k] B[k, n]; A and C row-major.
struct TileProblem {
  enum class Type : std::uint8_t { kBf16, kBf16ToFloat, kBytes };  // bf16 → bf16, bf16 → f32, u8 · i8 → i32
  Type type = Type::kBf16;
  std::int64_t m = 1, n = 1, k = 1;

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  std::string name() const;
};

/// Runs it on so many threads. E708 where oneDNN refuses.
Result<Contender> onednn_product(const TileProblem& problem, int threads);

}  // namespace fettle::bench
