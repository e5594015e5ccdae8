// C[8] += A[4] · B[8, 4], u8 times i8 in i32, by one vpdpbusd on 256 bits: AVX-VNNI, or AVX-512 VNNI with VL. As
// vpdpbusd_512.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func vpdpbusd_256(A: u8[4], B: i8[8, 4], C: i32[8] output):
  for j in 8:
    for k in 4:
      block C(vj: spatial[8] = j, vk: reduce[4] = k):
        reads A[vk], B[vj, vk]
        writes C[vj]
        C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
)";

constexpr std::string_view kImplementation = R"(
lowered func vpdpbusd_256(A: u8[4], B: i8[32], C: i32[8] output, sb: i64 in 4..4):
  C[ramp(0, 1, 8)] = `llvm.x86.avx512.vpdpbusd.256`.i32x8(C[ramp(0, 1, 8)], broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 8), B[ramp(0, 1, 32)])
)";

bool available(const Target& target) {
  return target.kind == "llvm" &&
         (target.has_feature("avxvnni") || (target.has_feature("avx512vnni") && target.has_feature("avx512vl")));
}

}  // namespace

extern constinit const TensorIntrinsicDef vpdpbusd_256_intrinsic = {"vpdpbusd_256", kMeaning, kImplementation,
                                                                    available};

}  // namespace fettle
