// C[4] += A[4] · B[4, 4], u8 times i8 in i32, by one USDOT (Armv8.6 integer matrix multiplication). Exact, sums wrap.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func neon_usdot(A: u8[4], B: i8[4, 4], C: i32[4] output):
  for j in 4:
    for k in 4:
      block C(vj: spatial[4] = j, vk: reduce[4] = k):
        reads A[vk], B[vj, vk]
        writes C[vj]
        C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
)";

constexpr std::string_view kImplementation = R"(
lowered func neon_usdot(A: u8[4], B: i8[16], C: i32[4] output, sb: i64 in 4..4):
  C[ramp(0, 1, 4)] = `llvm.aarch64.neon.usdot.v4i32.v16i8`.i32x4(C[ramp(0, 1, 4)], bitcast.u8x16(broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 4)), B[ramp(0, 1, 16)])
)";

bool available(const Target& target) { return target.kind == "llvm" && target.has_feature("i8mm"); }

}  // namespace

extern constinit const TensorIntrinsicDef neon_usdot_intrinsic = {"neon_usdot", kMeaning, kImplementation, available};

}  // namespace fettle
