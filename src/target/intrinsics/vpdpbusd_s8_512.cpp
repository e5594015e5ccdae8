// C[16] += A[4] · B[16, 4], i8 times i8 in i32, on a machine whose dot product takes unsigned times signed bytes
// (AVX-512 VNNI):
//   Σ a·b = Σ (a + 128)·b − 128·Σ b,   a + 128 = a xor 0x80 as u8
// The second sum depends on B alone: the rows of a tile share it. Exact, sums wrap. Costs one vpdpbusd and one
// subtraction for each vector of the result, so it is half as fast as u8 times i8.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func vpdpbusd_s8_512(A: i8[4], B: i8[16, 4], C: i32[16] output):
  for j in 16:
    for k in 4:
      block C(vj: spatial[16] = j, vk: reduce[4] = k):
        reads A[vk], B[vj, vk]
        writes C[vj]
        C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
)";

constexpr std::string_view kImplementation = R"(
lowered func vpdpbusd_s8_512(A: i8[4], B: i8[64], C: i32[16] output, sb: i64 in 4..4):
  let shift = `llvm.x86.avx512.vpdpbusd.512`.i32x16(broadcast(0i32, 16), broadcast(-2139062144i32, 16), B[ramp(0, 1, 64)])
  C[ramp(0, 1, 16)] = `llvm.x86.avx512.vpdpbusd.512`.i32x16(C[ramp(0, 1, 16)], broadcast(bitcast.i32(A[ramp(0, 1, 4)]) ^ -2139062144i32, 16), B[ramp(0, 1, 64)]) - shift
)";

bool available(const Target& target) {
  return target.kind == "llvm" && target.vector_bits >= 512 && target.has_feature("avx512vnni");
}

}  // namespace

extern constinit const TensorIntrinsicDef vpdpbusd_s8_512_intrinsic = {"vpdpbusd_s8_512", kMeaning, kImplementation,
                                                                       available, 2};

}  // namespace fettle
