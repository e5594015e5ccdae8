#include "cuda/cublas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

namespace fettle::bench {

// The part of cublas_v2.h that is used.
struct Cublas::Api {
  int (*create)(void** handle) = nullptr;
  int (*set_math_mode)(void*, int) = nullptr;
  int (*sgemm)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*, float*,
               int) = nullptr;
  int (*gemm_ex)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*,
                 void*, int, int, int, int) = nullptr;
  void* handle = nullptr;
};

namespace {
constexpr int kDefaultMath = 0, kCompute32F = 68, kDefaultAlgorithm = -1;
// CUDA_R_…
int type_of(DType type) { return type == kF16 ? 2 : type == kBF16 ? 14 : 0; }
}  // namespace

Result<Cublas> Cublas::open() {
  std::vector<std::string> names = {"libcublas.so", "libcublas.so.13", "libcublas.so.12"};
  if (const char* given = std::getenv("FETTLE_CUBLAS")) names = {given};
  void* library = nullptr;
  for (const std::string& name : names)
    if (!library) library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(ErrorCode::E708, "cuBLAS is not installed; FETTLE_CUBLAS may name the library", "cublas");
  Cublas made;
  made.api_ = std::make_shared<Api>();
  bool all = true;
  const auto get = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    all &= function != nullptr;
  };
  get(made.api_->create, "cublasCreate_v2");
  get(made.api_->set_math_mode, "cublasSetMathMode");
  get(made.api_->sgemm, "cublasSgemm_v2");
  get(made.api_->gemm_ex, "cublasGemmEx");
  if (!all || made.api_->create(&made.api_->handle) != 0)
    return fail(ErrorCode::E708, "cuBLAS cannot be started", "cublas");
  made.api_->set_math_mode(made.api_->handle, kDefaultMath);
  return made;
}

Result<> Cublas::gemm(DType factors, DType result, int64_t m, int64_t n, int64_t k, CudaAddress a, CudaAddress b,
                      CudaAddress c) const {
  const float one = 1, zero = 0;
  const int rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k);
  // Column-major: the transposed product.
  const auto* left = reinterpret_cast<const float*>(b);
  const auto* right = reinterpret_cast<const float*>(a);
  auto* out = reinterpret_cast<float*>(c);
  const int type = type_of(factors);
  const int status =
      factors == kF32 ? api_->sgemm(api_->handle, 0, 0, columns, rows, depth, &one, left, columns, right, depth, &zero,
                                    out, columns)
                      : api_->gemm_ex(api_->handle, 0, 0, columns, rows, depth, &one, left, type, columns, right, type,
                                      depth, &zero, out, type_of(result), columns, kCompute32F, kDefaultAlgorithm);
  return status == 0 ? Result<>() : fail(ErrorCode::E708, fmt::format("cuBLAS: status {}", status), "cublas");
}

}  // namespace fettle::bench
