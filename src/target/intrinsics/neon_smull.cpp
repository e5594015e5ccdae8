// C[4] += A[4] · B[4, 4], i8 times i8 in i32, on every Armv8: SMULL widens products to 16 bits (the largest, 128·128,
// fits), SADDLP adds neighbours in 32 bits, ADDP those sums. Exact, sums wrap.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func neon_smull(A: i8[4], B: i8[4, 4], C: i32[4] output):
  for j in 4:
    for k in 4:
      block C(vj: spatial[4] = j, vk: reduce[4] = k):
        reads A[vk], B[vj, vk]
        writes C[vj]
        C[vj] = C[vj] + i32(A[vk]) * i32(B[vj, vk])
)";

constexpr std::string_view kImplementation = R"(
lowered func neon_smull(A: i8[4], B: i8[16], C: i32[4] output, sb: i64 in 4..4):
  let a = bitcast.i8x8(broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 2))
  let low = `llvm.aarch64.neon.saddlp.v4i32.v8i16`.i32x4(`llvm.aarch64.neon.smull.v8i16`.i16x8(a, B[ramp(0, 1, 8)]))
  let high = `llvm.aarch64.neon.saddlp.v4i32.v8i16`.i32x4(`llvm.aarch64.neon.smull.v8i16`.i16x8(a, B[ramp(8, 1, 8)]))
  C[ramp(0, 1, 4)] = C[ramp(0, 1, 4)] + `llvm.aarch64.neon.addp.v4i32`.i32x4(low, high)
)";

bool available(const Target& target) { return target.kind == "llvm" && target.has_feature("neon"); }

}  // namespace

extern constinit const TensorIntrinsicDef neon_smull_intrinsic = {"neon_smull", kMeaning, kImplementation, available,
                                                                  6};

}  // namespace fettle
