// C[16] += A[4] · B[16, 4], u8 times i8 in i32, by one vpdpbusd on 512 bits (AVX-512 VNNI). Four bytes of A go to all
// lanes; B is dense, so that it lies in memory as one vector. Exact for all operands: vpdpbusd does not saturate, sums
// wrap.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func vpdpbusd_512(A: u8[4], B: i8[16, 4], C: i32[16] output):
  for j in 16:
    for k in 4:
      block C(vj: spatial[16] = j, vk: reduce[4] = k):
        reads A[vk], B[vj, vk]
        writes C[vj]
        C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
)";

constexpr std::string_view kImplementation = R"(
lowered func vpdpbusd_512(A: u8[4], B: i8[64], C: i32[16] output, sb: i64 in 4..4):
  C[ramp(0, 1, 16)] = `llvm.x86.avx512.vpdpbusd.512`.i32x16(C[ramp(0, 1, 16)], broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 16), B[ramp(0, 1, 64)])
)";

bool available(const Target& target) {
  return target.kind == "llvm" && target.vector_bits >= 512 && target.has_feature("avx512vnni");
}

}  // namespace

extern constinit const TensorIntrinsicDef vpdpbusd_512_intrinsic = {"vpdpbusd_512", kMeaning, kImplementation,
                                                                    available};

}  // namespace fettle
