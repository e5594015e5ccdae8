// C[2, 4] += A[2, 4] @ B[4, 4] in scalar arithmetic: for every target, to try the machinery on.

#include "target/tensor_intrinsic.h"

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
lowered func scalar_matmul_f32(A: f32[8], B: f32[16], C: f32[8] output, sa: i64, sb: i64, sc: i64):
  for k in 4 unrolled:
    for i in 2 unrolled:
      for j in 4 unrolled:
        C[i * sc + j] = C[i * sc + j] + A[i * sa + k] * B[k * sb + j]
)";

bool everywhere(const Target&) { return true; }

}  // namespace

extern constinit const TensorIntrinsicDef scalar_matmul_f32_intrinsic = {"scalar_matmul_f32", kMeaning, kImplementation,
                                                                         everywhere};

}  // namespace fettle
