#pragma once
// cuBLAS as a peer, loaded where it is present; never linked.

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "codegen/cuda/driver.h"
#include "ir/type.h"

namespace fettle::bench {

class Cublas {
 public:
  /// The library that FETTLE_CUBLAS names, else libcublas.so(.13, .12) where the loader looks. Works in the context
  /// that is current. E708
  static Result<Cublas> open();

  /// C[m, n] = A[m, k] * B[k, n], row-major: f32 without TF32, or factors in f16, products and sums in f32. E708
  Result<> gemm(DType factors, DType result, int64_t m, int64_t n, int64_t k, CudaAddress a, CudaAddress b,
                CudaAddress c) const;

 private:
  struct Api;
  std::shared_ptr<Api> api_;
};

}  // namespace fettle::bench
