// Sums of neighbouring products on x86.

#include "target/intrinsics/dot_product.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

bool has_avx2(const Target& target) { return target.kind == "llvm" && target.has_feature("avx2"); }
bool has_512(const Target& target, std::string_view feature) {
  return target.kind == "llvm" && target.vector_bits >= 512 && target.has_feature(feature);
}
bool has_vnni_512(const Target& target) { return has_512(target, "avx512vnni"); }
bool has_bf16_512(const Target& target) { return has_512(target, "avx512bf16"); }
bool has_vnni_256(const Target& target) {
  return target.kind == "llvm" &&
         (target.has_feature("avxvnni") || (target.has_feature("avx512vnni") && target.has_feature("avx512vl")));
}

// Where no dot product of bytes is there, neighbours of 16 bits are multiplied.
bool has_pairs_256(const Target& target) {
  return has_avx2(target) && !target.has_feature("avxvnni") && !target.has_feature("avx512vnni");
}
bool has_pairs_512(const Target& target) { return has_512(target, "avx512bw") && has_pairs_256(target); }

}  // namespace

// C[16] += A[4] · B[16, 4], u8 times i8 in i32, by one vpdpbusd on 512 bits (AVX-512 VNNI). Four bytes of A go to all
// lanes; B is dense, so that it lies in memory as one vector. Exact for all operands: vpdpbusd does not saturate, sums
// wrap.
constexpr auto vpdpbusd_512_meaning = dot_product("vpdpbusd_512", "u8", "i8", "i32", 16, 4);
extern constinit const TensorIntrinsicDef vpdpbusd_512_intrinsic = {"vpdpbusd_512", vpdpbusd_512_meaning, R"(
lowered func vpdpbusd_512(A: u8[4], B: i8[64], C: i32[16] output, sb: i64 in 4..4):
  C[ramp(0, 1, 16)] = `llvm.x86.avx512.vpdpbusd.512`.i32x16(C[ramp(0, 1, 16)], broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 16), B[ramp(0, 1, 64)])
)",
                                                                    has_vnni_512};

// C[16] += A[4] · B[16, 4], i8 times i8 in i32, on a machine whose dot product takes unsigned times signed bytes
// (AVX-512 VNNI):
//   Σ a·b = Σ (a + 128)·b − 128·Σ b,   a + 128 = a xor 0x80 as u8
// The second sum depends on B alone: the rows of a tile share it. Exact, sums wrap. Costs one vpdpbusd and one
// subtraction for each vector of the result, so it is half as fast as u8 times i8.
constexpr auto vpdpbusd_s8_512_meaning = dot_product("vpdpbusd_s8_512", "i8", "i8", "i32", 16, 4);
extern constinit const TensorIntrinsicDef vpdpbusd_s8_512_intrinsic = {"vpdpbusd_s8_512", vpdpbusd_s8_512_meaning, R"(
lowered func vpdpbusd_s8_512(A: i8[4], B: i8[64], C: i32[16] output, sb: i64 in 4..4):
  let shift = `llvm.x86.avx512.vpdpbusd.512`.i32x16(broadcast(0i32, 16), broadcast(-2139062144i32, 16), B[ramp(0, 1, 64)])
  C[ramp(0, 1, 16)] = `llvm.x86.avx512.vpdpbusd.512`.i32x16(C[ramp(0, 1, 16)], broadcast(bitcast.i32(A[ramp(0, 1, 4)]) ^ -2139062144i32, 16), B[ramp(0, 1, 64)]) - shift
)",
                                                                       has_vnni_512, 2};

// C[8] += A[4] · B[8, 4], u8 times i8 in i32, by one vpdpbusd on 256 bits: AVX-VNNI, or AVX-512 VNNI with VL. As
// vpdpbusd_512.
constexpr auto vpdpbusd_256_meaning = dot_product("vpdpbusd_256", "u8", "i8", "i32", 8, 4);
extern constinit const TensorIntrinsicDef vpdpbusd_256_intrinsic = {"vpdpbusd_256", vpdpbusd_256_meaning, R"(
lowered func vpdpbusd_256(A: u8[4], B: i8[32], C: i32[8] output, sb: i64 in 4..4):
  C[ramp(0, 1, 8)] = `llvm.x86.avx512.vpdpbusd.256`.i32x8(C[ramp(0, 1, 8)], broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 8), B[ramp(0, 1, 32)])
)",
                                                                    has_vnni_256};

// C[8] += A[4] · B[8, 4], i8 times i8 in i32, where the dot product of bytes takes unsigned times signed ones
// (AVX-VNNI). vpmaddubsw would saturate at 16 bits. So bytes become 16-bit numbers, the even ones and the odd ones of
// each pair apart, and vpmaddwd multiplies and adds these in 32 bits: exact.
constexpr auto vpmaddwd_s8_256_meaning = dot_product("vpmaddwd_s8_256", "i8", "i8", "i32", 8, 4);
extern constinit const TensorIntrinsicDef vpmaddwd_s8_256_intrinsic = {"vpmaddwd_s8_256", vpmaddwd_s8_256_meaning, R"(
lowered func vpmaddwd_s8_256(A: i8[4], B: i8[32], C: i32[8] output, sb: i64 in 4..4):
  let a = bitcast.i16x16(broadcast(bitcast.i32(A[ramp(0, 1, 4)]), 8))
  let b = bitcast.i16x16(B[ramp(0, 1, 32)])
  let even = `llvm.x86.avx2.pmadd.wd`.i32x8(((a << broadcast(8i16, 16)) >> broadcast(8i16, 16)), (b << broadcast(8i16, 16)) >> broadcast(8i16, 16))
  let odd = `llvm.x86.avx2.pmadd.wd`.i32x8((a >> broadcast(8i16, 16)), b >> broadcast(8i16, 16))
  C[ramp(0, 1, 8)] = C[ramp(0, 1, 8)] + even + odd
)",
                                                                       has_vnni_256, 4};

// C[8] += A[2] · B[8, 2], i16 times i8 in i32, for machines with AVX2 and no dot product of bytes. vpmaddubsw would
// multiply bytes at once, but saturates at 16 bits (255·127·2 does not fit). So B's bytes become 16-bit numbers as they
// are loaded, for all rows of a tile, and vpmaddwd multiplies and adds neighbours in 32 bits: exact, sums wrap. A's
// bytes are widened before, once for all columns (TensorTiling::widen_rows).
constexpr auto vpmaddwd_s16s8_256_meaning = dot_product("vpmaddwd_s16s8_256", "i16", "i8", "i32", 8, 2);
extern constinit const TensorIntrinsicDef vpmaddwd_s16s8_256_intrinsic = {.name = "vpmaddwd_s16s8_256",
                                                                          .meaning = vpmaddwd_s16s8_256_meaning,
                                                                          .implementation = R"(
lowered func vpmaddwd_s16s8_256(A: i16[2], B: i8[16], C: i32[8] output, sb: i64 in 2..2):
  C[ramp(0, 1, 8)] = C[ramp(0, 1, 8)] + `llvm.x86.avx2.pmadd.wd`.i32x8(bitcast.i16x16(broadcast(bitcast.i32(A[ramp(0, 1, 2)]), 8)), i16x16(B[ramp(0, 1, 16)]))
)",
                                                                          .available = has_pairs_256,
                                                                          .instructions = 2};

// C[8] += A[2] · B[8, 2], i16 times u8 in i32. As vpmaddwd_s16s8_256.
constexpr auto vpmaddwd_s16u8_256_meaning = dot_product("vpmaddwd_s16u8_256", "i16", "u8", "i32", 8, 2);
extern constinit const TensorIntrinsicDef vpmaddwd_s16u8_256_intrinsic = {.name = "vpmaddwd_s16u8_256",
                                                                          .meaning = vpmaddwd_s16u8_256_meaning,
                                                                          .implementation = R"(
lowered func vpmaddwd_s16u8_256(A: i16[2], B: u8[16], C: i32[8] output, sb: i64 in 2..2):
  C[ramp(0, 1, 8)] = C[ramp(0, 1, 8)] + `llvm.x86.avx2.pmadd.wd`.i32x8(bitcast.i16x16(broadcast(bitcast.i32(A[ramp(0, 1, 2)]), 8)), i16x16(B[ramp(0, 1, 16)]))
)",
                                                                          .available = has_pairs_256,
                                                                          .instructions = 2};

// C[16] += A[2] · B[16, 2], i16 times i8 in i32, on 512 bits: AVX-512 BW without VNNI. As vpmaddwd_s16s8_256.
constexpr auto vpmaddwd_s16s8_512_meaning = dot_product("vpmaddwd_s16s8_512", "i16", "i8", "i32", 16, 2);
extern constinit const TensorIntrinsicDef vpmaddwd_s16s8_512_intrinsic = {.name = "vpmaddwd_s16s8_512",
                                                                          .meaning = vpmaddwd_s16s8_512_meaning,
                                                                          .implementation = R"(
lowered func vpmaddwd_s16s8_512(A: i16[2], B: i8[32], C: i32[16] output, sb: i64 in 2..2):
  C[ramp(0, 1, 16)] = C[ramp(0, 1, 16)] + `llvm.x86.avx512.pmaddw.d.512`.i32x16(bitcast.i16x32(broadcast(bitcast.i32(A[ramp(0, 1, 2)]), 16)), i16x32(B[ramp(0, 1, 32)]))
)",
                                                                          .available = has_pairs_512,
                                                                          .instructions = 2};

// C[16] += A[2] · B[16, 2], i16 times u8 in i32, on 512 bits. As vpmaddwd_s16s8_256.
constexpr auto vpmaddwd_s16u8_512_meaning = dot_product("vpmaddwd_s16u8_512", "i16", "u8", "i32", 16, 2);
extern constinit const TensorIntrinsicDef vpmaddwd_s16u8_512_intrinsic = {.name = "vpmaddwd_s16u8_512",
                                                                          .meaning = vpmaddwd_s16u8_512_meaning,
                                                                          .implementation = R"(
lowered func vpmaddwd_s16u8_512(A: i16[2], B: u8[32], C: i32[16] output, sb: i64 in 2..2):
  C[ramp(0, 1, 16)] = C[ramp(0, 1, 16)] + `llvm.x86.avx512.pmaddw.d.512`.i32x16(bitcast.i16x32(broadcast(bitcast.i32(A[ramp(0, 1, 2)]), 16)), i16x32(B[ramp(0, 1, 32)]))
)",
                                                                          .available = has_pairs_512,
                                                                          .instructions = 2};

// C[16] += A[2] · B[16, 2], bf16 times bf16 in f32, by one vdpbf16ps on 512 bits (AVX-512 BF16). Products are exact;
// the instruction adds that of k = 1 first, then that of k = 0, each sum rounded to the nearest f32 (half to even). It
// takes denormal operands for zero and flushes denormal results to zero. So results differ from the meaning's as those
// of another order of summation do, and by at most 2^-126 a step where numbers are that small.
constexpr auto vdpbf16ps_512_meaning = dot_product("vdpbf16ps_512", "bf16", "bf16", "f32", 16, 2);
extern constinit const TensorIntrinsicDef vdpbf16ps_512_intrinsic = {"vdpbf16ps_512", vdpbf16ps_512_meaning, R"(
lowered func vdpbf16ps_512(A: bf16[2], B: bf16[32], C: f32[16] output, sb: i64 in 2..2):
  C[ramp(0, 1, 16)] = `llvm.x86.avx512bf16.dpbf16ps.512`.f32x16(C[ramp(0, 1, 16)], broadcast(bitcast.i32(A[ramp(0, 1, 2)]), 16), B[ramp(0, 1, 32)])
)",
                                                                     has_bf16_512};

}  // namespace fettle
