#pragma once
// The program that most of these examples work on, and how their results are told.

#include <cstdio>
#include <string>

#include "schedule/schedule.h"
#include "te/create_func.h"

/// C[i, j] = sum over k of A[i, k] * B[k, j]
inline fettle::Func matmul(int64_t n) {
  using namespace fettle;
  const te::Tensor a = te::placeholder({n, n}, kF32, "A"), b = te::placeholder({n, n}, kF32, "B");
  const te::ReduceAxis k = te::reduce_axis(n, "k");
  const te::Tensor c =
      te::compute({n, n}, [&](const auto& v) { return te::sum(a(v[0], k) * b(k, v[1]), {k}); }, "C", {"i", "j"});
  return te::create_func("matmul", {a, b}, {c});
}

/// The exit status of an example.
inline int tell(const fettle::Result<std::string>& result) {
  if (result) {
    std::puts(result->c_str());
    return 0;
  }
  std::fputs(fettle::explain(result.error()).c_str(), stderr);
  return 1;
}
