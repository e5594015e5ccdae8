// C[16] += B[16, 16] @ A[16] in 8-bit integers with 32-bit sums: one cycle of the simulated accelerator. A in scope
// inp, B in wgt, C in acc.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func dae_gemm_16x16(A: i8[16], B: i8[16, 16], C: i32[16] output):
  for j in 16:
    for k in 16:
      block C(vj: spatial[16] = j, vk: reduce[16] = k):
        reads A[vk], B[vj, vk]
        writes C[vj]
        C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
)";

// As loops: codegen/dae knows the instruction by its name.
constexpr std::string_view kImplementation = R"(
lowered func dae_gemm_16x16(A: i8[16], B: i8[256], C: i32[16] output, sb: i64 in 16..16):
  for j in 16:
    for k in 16:
      C[j] = C[j] + i32(A[k]) * i32(B[j * sb + k])
)";

bool available(const Target& target) { return target.kind == "dae"; }

}  // namespace

extern constinit const TensorIntrinsicDef dae_gemm_16x16_intrinsic = {"dae_gemm_16x16", kMeaning, kImplementation,
                                                                      available};

}  // namespace fettle
