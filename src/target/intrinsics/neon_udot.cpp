// C[4] += A[4] · B[4, 4], u8 times u8 in i32, by one UDOT (Armv8.2 dot product). Exact, sums wrap.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func neon_udot(A: u8[4], B: u8[4, 4], C: i32[4] output):
  for j in 4:
    for k in 4:
      block C(vj: spatial[4] = j, vk: reduce[4] = k):
        reads A[vk], B[vj, vk]
        writes C[vj]
        C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
)";

constexpr std::string_view kImplementation = R"(
lowered func neon_udot(A: u8[4], B: u8[16], C: i32[4] output, sb: i64 in 4..4):
  C[ramp(0, 1, 4)] = `llvm.aarch64.neon.udot.v4i32.v16i8`.i32x4(C[ramp(0, 1, 4)], B[ramp(0, 1, 16)], bitcast.u8x16(broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 4)))
)";

bool available(const Target& target) { return target.kind == "llvm" && target.has_feature("dotprod"); }

}  // namespace

extern constinit const TensorIntrinsicDef neon_udot_intrinsic = {"neon_udot", kMeaning, kImplementation, available};

}  // namespace fettle
