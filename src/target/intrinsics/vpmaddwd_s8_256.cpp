// C[8] += A[4] · B[8, 4], i8 times i8 in i32, with AVX2. As vpmaddwd_256; both operands are sign-extended.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func vpmaddwd_s8_256(A: i8[4], B: i8[8, 4], C: i32[8] output):
  for j in 8:
    for k in 4:
      block C(vj: spatial[8] = j, vk: reduce[4] = k):
        reads A[vk], B[vj, vk]
        writes C[vj]
        C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
)";

constexpr std::string_view kImplementation = R"(
lowered func vpmaddwd_s8_256(A: i8[4], B: i8[32], C: i32[8] output, sb: i64 in 4..4):
  let a = bitcast.i16x16(broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 8))
  let b = bitcast.i16x16(B[ramp(0, 1, 32)])
  let even = `llvm.x86.avx2.pmadd.wd`.i32x8(((a << broadcast(8i16, 16)) >> broadcast(8i16, 16)), (b << broadcast(8i16, 16)) >> broadcast(8i16, 16))
  let odd = `llvm.x86.avx2.pmadd.wd`.i32x8((a >> broadcast(8i16, 16)), b >> broadcast(8i16, 16))
  C[ramp(0, 1, 8)] = C[ramp(0, 1, 8)] + even + odd
)";

bool available(const Target& target) { return target.kind == "llvm" && target.has_feature("avx2"); }

}  // namespace

extern constinit const TensorIntrinsicDef vpmaddwd_s8_256_intrinsic = {"vpmaddwd_s8_256", kMeaning, kImplementation,
                                                                       available, 4};

}  // namespace fettle
