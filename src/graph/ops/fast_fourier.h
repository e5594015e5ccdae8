#pragma once
// Fourier transforms of many numbers, as small products.

#include "graph/passes/lowering.h"

namespace fettle::ops {

/// Real and imaginary parts of one shape; no imaginary parts: they are zero.
struct Complex {
  Value* real = nullptr;
  Value* imaginary = nullptr;
};

/// A transform of more numbers takes less time in parts than as one product with a table.
inline constexpr int64_t kMostDirect = 512;
/// Tables have an element for each number.
inline constexpr int64_t kMostTransformed = int64_t{1} << 24;

/// y[…, k] = Σ x[…, j] exp(∓2πi jk/n), k < n: the sign is a plus where it is inverse, and nothing is divided by n.
///   n = a b           transforms of a, turned, then of b (Cooley, Tukey 1965)
///   n is prime        a convolution by a chirp, through transforms of at least 2n - 1 numbers (Bluestein 1970)
Complex fast_fourier(passes::Lowering& g, const Complex& x, int64_t n, bool inverse);

}  // namespace fettle::ops
