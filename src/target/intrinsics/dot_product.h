#pragma once
// The meaning of instructions that sum neighbouring products: C[n] += A[k] · B[n, k].

#include "target/intrinsics/intrinsic_text.h"

namespace fettle {

/// a, b, sum: the types of what is multiplied, and of the sums.
consteval IntrinsicText dot_product(std::string_view name, std::string_view a, std::string_view b, std::string_view sum,
                                    int n, int k) {
  IntrinsicText text;
  text << "func " << name << "(A: " << a << "[" << k << "], B: " << b << "[" << n << ", " << k << "], C: " << sum << "["
       << n << "] output):\n";
  text << "  for j in " << n << ":\n    for k in " << k << ":\n      block C(vj: spatial[" << n << "] = j, vk: reduce["
       << k << "] = k):\n        reads A[vk], B[vj, vk]\n        writes C[vj]\n        C[vj] = C[vj] + " << sum
       << "(A[vk]) * " << sum << "(B[vj, vk])\n";
  return text;
}

}  // namespace fettle
