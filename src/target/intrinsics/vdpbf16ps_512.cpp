// C[16] += A[2] · B[16, 2], bf16 times bf16 in f32, by one vdpbf16ps on 512 bits (AVX-512 BF16). Products are exact;
// the instruction adds that of k = 1 first, then that of k = 0, each sum rounded to the nearest f32 (half to even). It
// takes denormal operands for zero and flushes denormal results to zero. So results differ from the meaning's as those
// of another order of summation do, and by at most 2^-126 a step where numbers are that small.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func vdpbf16ps_512(A: bf16[2], B: bf16[16, 2], C: f32[16] output):
  for j in 16:
    for k in 2:
      block C(vj: spatial[16] = j, vk: reduce[2] = k):
        reads A[vk], B[vj, vk]
        writes C[vj]
        C[vj] = C[vj] + f32(A[vk]) * f32(B[vj, vk])
)";

constexpr std::string_view kImplementation = R"(
lowered func vdpbf16ps_512(A: bf16[2], B: bf16[32], C: f32[16] output, sb: i64 in 2..2):
  C[ramp(0, 1, 16)] = `llvm.x86.avx512bf16.dpbf16ps.512`.f32x16(C[ramp(0, 1, 16)], broadcast(bitcast.i32(A[ramp(0, 1, 2)]), 16), B[ramp(0, 1, 32)])
)";

bool available(const Target& target) {
  return target.kind == "llvm" && target.vector_bits >= 512 && target.has_feature("avx512bf16");
}

}  // namespace

extern constinit const TensorIntrinsicDef vdpbf16ps_512_intrinsic = {"vdpbf16ps_512", kMeaning, kImplementation,
                                                                     available};

}  // namespace fettle
