// Sums of products of 8-bit integers on Arm. Exact, sums wrap.

#include "target/intrinsics/dot_product.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

bool has_dotprod(const Target& target) { return target.kind == "llvm" && target.has_feature("dotprod"); }
bool has_i8mm(const Target& target) { return target.kind == "llvm" && target.has_feature("i8mm"); }
bool has_neon(const Target& target) { return target.kind == "llvm" && target.has_feature("neon"); }

}  // namespace

// C[4] += A[4] · B[4, 4], i8 times i8 in i32, by one SDOT (Armv8.2 dot product). Exact, sums wrap.
constexpr auto neon_sdot_meaning = dot_product("neon_sdot", "i8", "i8", "i32", 4, 4);
extern constinit const TensorIntrinsicDef neon_sdot_intrinsic = {"neon_sdot", neon_sdot_meaning, R"(
lowered func neon_sdot(A: i8[4], B: i8[16], C: i32[4] output, sb: i64 in 4..4):
  C[ramp(0, 1, 4)] = `llvm.aarch64.neon.sdot.v4i32.v16i8`.i32x4(C[ramp(0, 1, 4)], B[ramp(0, 1, 16)], bitcast.i8x16(broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 4)))
)",
                                                                 has_dotprod};

// C[4] += A[4] · B[4, 4], u8 times u8 in i32, by one UDOT (Armv8.2 dot product). Exact, sums wrap.
constexpr auto neon_udot_meaning = dot_product("neon_udot", "u8", "u8", "i32", 4, 4);
extern constinit const TensorIntrinsicDef neon_udot_intrinsic = {"neon_udot", neon_udot_meaning, R"(
lowered func neon_udot(A: u8[4], B: u8[16], C: i32[4] output, sb: i64 in 4..4):
  C[ramp(0, 1, 4)] = `llvm.aarch64.neon.udot.v4i32.v16i8`.i32x4(C[ramp(0, 1, 4)], B[ramp(0, 1, 16)], bitcast.u8x16(broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 4)))
)",
                                                                 has_dotprod};

// C[4] += A[4] · B[4, 4], u8 times i8 in i32, by one USDOT (Armv8.6 integer matrix multiplication). Exact, sums wrap.
constexpr auto neon_usdot_meaning = dot_product("neon_usdot", "u8", "i8", "i32", 4, 4);
extern constinit const TensorIntrinsicDef neon_usdot_intrinsic = {"neon_usdot", neon_usdot_meaning, R"(
lowered func neon_usdot(A: u8[4], B: i8[16], C: i32[4] output, sb: i64 in 4..4):
  C[ramp(0, 1, 4)] = `llvm.aarch64.neon.usdot.v4i32.v16i8`.i32x4(C[ramp(0, 1, 4)], bitcast.u8x16(broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 4)), B[ramp(0, 1, 16)])
)",
                                                                  has_i8mm};

// C[4] += A[4] · B[4, 4], i8 times i8 in i32, on every Armv8: SMULL widens products to 16 bits (the largest, 128·128,
// fits), SADDLP adds neighbours in 32 bits, ADDP those sums. Exact, sums wrap.
constexpr auto neon_smull_meaning = dot_product("neon_smull", "i8", "i8", "i32", 4, 4);
extern constinit const TensorIntrinsicDef neon_smull_intrinsic = {"neon_smull", neon_smull_meaning, R"(
lowered func neon_smull(A: i8[4], B: i8[16], C: i32[4] output, sb: i64 in 4..4):
  let a = bitcast.i8x8(broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 2))
  let low = `llvm.aarch64.neon.saddlp.v4i32.v8i16`.i32x4(`llvm.aarch64.neon.smull.v8i16`.i16x8(a, B[ramp(0, 1, 8)]))
  let high = `llvm.aarch64.neon.saddlp.v4i32.v8i16`.i32x4(`llvm.aarch64.neon.smull.v8i16`.i16x8(a, B[ramp(8, 1, 8)]))
  C[ramp(0, 1, 4)] = C[ramp(0, 1, 4)] + `llvm.aarch64.neon.addp.v4i32`.i32x4(low, high)
)",
                                                                  has_neon, 6};

}  // namespace fettle
