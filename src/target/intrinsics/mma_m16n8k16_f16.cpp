#include "target/intrinsics/mma_m16n8k16_f16.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func mma_m16n8k16_f16(A: f16[16, 16], B: f16[16, 8], C: f32[16, 8] output):
  for i in 16:
    for j in 8:
      for k in 16:
        block C(vi: spatial[16] = i, vj: spatial[8] = j, vk: reduce[16] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          C[vi, vj] = C[vi, vj] + f32(A[vi, vk]) * f32(B[vk, vj])
)";

// The lanes' code is codegen/cuda's.
constexpr std::string_view kImplementation = R"(
lowered func mma_m16n8k16_f16(A: f16[256], B: f16[128], C: f32[128] output, sa: i64 in 16.., sb: i64 in 8.., sc: i64 in 8..):
  mma_m16n8k16_f16.i32(&A[0], sa, &B[0], sb, &C[0], sc)
)";

}  // namespace

bool has_mma_m16n8k16_f16(const Target& target) {
  return target.kind == "cuda" && (target.cpu == "sm_80" || target.cpu == "sm_90");
}

extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_intrinsic = {.name = "mma_m16n8k16_f16",
                                                                        .meaning = kMeaning,
                                                                        .implementation = kImplementation,
                                                                        .available = has_mma_m16n8k16_f16,
                                                                        .per_warp = true};

}  // namespace fettle
