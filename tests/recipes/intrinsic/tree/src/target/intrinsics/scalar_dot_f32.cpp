// C[2] += A[2, 4] . B[4]: for C compilers.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func scalar_dot_f32(A: f32[2, 4], B: f32[4], C: f32[2] output):
  for i in 2:
    for k in 4:
      block C(vi: spatial[2] = i, vk: reduce[4] = k):
        reads A[vi, vk], B[vk]
        writes C[vi]
        C[vi] = C[vi] + A[vi, vk] * B[vk]
)";

constexpr std::string_view kImplementation = R"(
lowered func scalar_dot_f32(A: f32[8], B: f32[4], C: f32[2] output, sa: i64):
  for k in 4 unrolled:
    for i in 2 unrolled:
      C[i] = C[i] + A[i * sa + k] * B[k]
)";

bool for_c(const Target& target) { return target.kind == "c"; }

}  // namespace

extern constinit const TensorIntrinsicDef scalar_dot_f32_intrinsic = {"scalar_dot_f32", kMeaning, kImplementation,
                                                                      for_c};

}  // namespace fettle
