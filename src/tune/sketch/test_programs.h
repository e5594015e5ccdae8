#pragma once
// Programs of tests of sketches, from tensor expressions.

#include <string>

#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::testing {

/// C[i, j] = sum_k A[i, k] * B[k, j]
inline te::Tensor matmul_of(const te::Tensor& a, const te::Tensor& b, std::string name) {
  const te::ReduceAxis k = te::reduce_axis(a.dim(1), "k");
  return te::compute({a.dim(0), b.dim(1)}, [&](const auto& v) { return te::sum(a(v[0], k) * b(k, v[1]), {k}); },
                     std::move(name), {"i", "j"});
}

inline te::Tensor relu_of(const te::Tensor& t, std::string name, std::vector<std::string> axes) {
  return te::compute(
      t.shape(), [&](const auto& v) { return max(t(v), float_imm(0)); }, std::move(name), std::move(axes));
}

/// C = A @ B; D = relu(C): the paper's first example.
inline Func matmul_relu(int64_t m, int64_t n, int64_t k) {
  const te::Tensor a = te::placeholder({m, k}, kF32, "A"), b = te::placeholder({k, n}, kF32, "B");
  const te::Tensor c = matmul_of(a, b, "C");
  return te::create_func("matmul_relu", {a, b}, {relu_of(c, "D", {"i", "j"})});
}

/// B = relu(A), of [8, 400]; C[i, k] = B[i, k] if k < 400 else 0, of [8, 512]; E = C @ D, of [8, 4]: its second.
inline Func relu_pad_matmul() {
  const te::Tensor a = te::placeholder({8, 400}, kF32, "A"), d = te::placeholder({512, 4}, kF32, "D");
  const te::Tensor b = relu_of(a, "B", {"i", "l"});
  const te::Tensor c =
      te::compute({8, 512}, [&](const auto& v) { return select(lt(v[1], 400), b(v), float_imm(0)); }, "C", {"i", "k"});
  return te::create_func("relu_pad_matmul", {a, d}, {matmul_of(c, d, "E")});
}

inline Func matmul(int64_t m, int64_t n, int64_t k) {
  const te::Tensor a = te::placeholder({m, k}, kF32, "A"), b = te::placeholder({k, n}, kF32, "B");
  return te::create_func("matmul", {a, b}, {matmul_of(a, b, "C")});
}

}  // namespace fettle::testing
