#pragma once
// Programs of tests of sketches, from tensor expressions.

#include <cmath>
#include <cstring>
#include <string>

#include "schedule/testing.h"
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

/// As same_result, for f32 and up to 1e-5 of each number: where what was reassociated are no integers, and divisions
/// are by reciprocals.
inline ::testing::AssertionResult near_result(const Func& before, const Func& after) {
  const Func funcs[2] = {before, after};
  std::vector<TestTensor> tensors[2];
  for (int f = 0; f < 2; ++f) {
    std::vector<BufferArg> args;
    for (const Param& param : funcs[f]->params) {
      TestTensor& tensor = tensors[f].emplace_back(param.buffer, Env{});
      RandomStream stream{7, tensors[f].size()};
      tensor.fill(0xff);
      if (param.kind != ParamKind::kOutput)
        for_each_index(tensor.logical_shape(), [&](const std::vector<int64_t>& index) {
          tensor.set(index, static_cast<int64_t>(stream.below(7)) - 3);
        });
    }
    for (TestTensor& tensor : tensors[f]) args.push_back(tensor.arg());
    if (const Result<> done = interpret(funcs[f], args, {}); !done)
      return ::testing::AssertionFailure() << error_text(done.error()) << "\n" << to_text(funcs[f]);
  }
  double worst = 0;
  for (size_t p = 0; p < before->params.size(); ++p)
    if (before->params[p].kind == ParamKind::kOutput)
      for_each_index(tensors[0][p].logical_shape(), [&](const std::vector<int64_t>& index) {
        float x, y;
        std::memcpy(&x, tensors[0][p].at(index), sizeof x);
        std::memcpy(&y, tensors[1][p].at(index), sizeof y);
        const double off = std::abs(x - y) / std::max(std::abs(x), 1e-3f);
        worst = off <= worst ? worst : off;  // NaN stays
      });
  if (worst <= 1e-5) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "off by " << worst << "\n" << to_text(after);
}

}  // namespace fettle::testing
