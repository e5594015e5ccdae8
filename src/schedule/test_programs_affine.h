#pragma once
// Programs whose loops have bounds of loops around them; included by tests only.

#include <string>

#include <fmt/format.h>

namespace fettle::testing {

// L of a symmetric matrix's factorisation, without roots and quotients: sums and products alone.
inline std::string triangular(int n) {
  return fmt::format(R"(func factor(X: f32[{0}, {0}], A: f32[{0}, {0}] output):
  for a in {0}:
    for b in {0}:
      block copy(va: spatial[{0}] = a, vb: spatial[{0}] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for i in {0}:
    for j in i:
      for k in j:
        block S0(vi: scan[{0}] = i, vj: scan[{0}] = j, vk: reduce[{0}] = k):
          reads A[vi, vj], A[vi, vk], A[vj, vk]
          writes A[vi, vj]
          A[vi, vj] = A[vi, vj] - A[vi, vk] * A[vj, vk]
      block S1(vi: scan[{0}] = i, vj: scan[{0}] = j):
        reads A[vi, vj], A[vj, vj]
        writes A[vi, vj]
        A[vi, vj] = A[vi, vj] * A[vj, vj]
)",
                     n);
}

}  // namespace fettle::testing
