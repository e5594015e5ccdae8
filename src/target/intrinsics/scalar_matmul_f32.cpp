#include "target/intrinsics/scalar_matmul_f32.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func scalar_matmul_f32(A: f32[2, 4], B: f32[4, 4], C: f32[2, 4] output):
  for i in 2:
    for j in 4:
      for k in 4:
        block C(vi: spatial[2] = i, vj: spatial[4] = j, vk: reduce[4] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)";

constexpr std::string_view kImplementation = R"(
func scalar_matmul_f32(A: f32[2, 4] strides[sa, 1], B: f32[4, 4] strides[sb, 1], C: f32[2, 4] strides[sc, 1] output, sa: i64 in 4.., sb: i64 in 4.., sc: i64 in 4..):
  block tile():
    reads A[0 +: 2, 0 +: 4], B[0 +: 4, 0 +: 4], C[0 +: 2, 0 +: 4]
    writes C[0 +: 2, 0 +: 4]
    for k in 4:
      for i in 2:
        for j in 4:
          C[i, j] = C[i, j] + A[i, k] * B[k, j]
)";

bool everywhere(const Target&) { return true; }

}  // namespace

constinit const TensorIntrinsicDef scalar_matmul_f32_intrinsic = {"scalar_matmul_f32", kMeaning, kImplementation,
                                                                  everywhere};

}  // namespace fettle
