// C[16, 8] += A[16, 16] @ B[16, 8] by one warp: f16 factors, sums in f32, by the tensor cores of NVIDIA's GPUs from
// sm_80 on (PTX ISA, "mma.m16n8k16 with floating point type"). Products are exact; the order of the sums is the
// machine's. A, B and C lie where the whole warp sees them, or in registers of the warp (scope "fragment"), where
// mma_m16n8k16_f16_load_a, …_load_b and …_fill put them and …_store takes them from.

#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// The lanes' code is codegen/cuda's.
bool has_mma(const Target& target) {
  return target.kind == "cuda" && (target.cpu == "sm_80" || target.cpu == "sm_90");
}

}  // namespace

extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_intrinsic = {
    .name = "mma_m16n8k16_f16",
    .meaning = R"(
func mma_m16n8k16_f16(A: f16[16, 16], B: f16[16, 8], C: f32[16, 8] output):
  for i in 16:
    for j in 8:
      for k in 16:
        block C(vi: spatial[16] = i, vj: spatial[8] = j, vk: reduce[16] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          C[vi, vj] = C[vi, vj] + f32(A[vi, vk]) * f32(B[vk, vj])
)",
    .implementation = R"(
lowered func mma_m16n8k16_f16(A: f16[256], B: f16[128], C: f32[128] output, sa: i64 in 16.., sb: i64 in 8.., sc: i64 in 8..):
  mma_m16n8k16_f16.i32(&A[0], sa, &B[0], sb, &C[0], sc)
)",
    .available = has_mma,
    .per_warp = true};

// C[16, 8] = 0: sums of mma_m16n8k16_f16 in the registers of a warp (C: scope "fragment") before the first product.
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_fill_intrinsic = {
    .name = "mma_m16n8k16_f16_fill",
    .meaning = R"(
func mma_m16n8k16_f16_fill(C: f32[16, 8] output):
  for i in 16:
    for j in 8:
      block C(vi: spatial[16] = i, vj: spatial[8] = j):
        writes C[vi, vj]
        C[vi, vj] = 0.0
)",
    .implementation = R"(
lowered func mma_m16n8k16_f16_fill(C: f32[128] output, sc: i64 in 8..):
  mma_m16n8k16_f16_fill.i32(&C[0], sc)
)",
    .available = has_mma,
    .per_warp = true,
    .in_fragments = 1};

// D[16, 16] = A[16, 16]: the left factor of mma_m16n8k16_f16 from memory to the registers of a warp (D: scope "fragment"). From
// rows in shared memory that begin at multiples of 16 bytes by `ldmatrix` (PTX ISA).
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_a_intrinsic = {
    .name = "mma_m16n8k16_f16_load_a",
    .meaning = R"(
func mma_m16n8k16_f16_load_a(D: f16[16, 16] output, A: f16[16, 16]):
  for i in 16:
    for j in 16:
      block D(vi: spatial[16] = i, vj: spatial[16] = j):
        reads A[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = A[vi, vj]
)",
    .implementation = R"(
lowered func mma_m16n8k16_f16_load_a(D: f16[256] output, A: f16[256], sd: i64 in 16.., sa: i64 in 16..):
  mma_m16n8k16_f16_load_a.i32(&D[0], sd, &A[0], sa)
)",
    .available = has_mma,
    .per_warp = true,
    .in_fragments = 1};

// D[16, 8] = B[16, 8]: the right factor of mma_m16n8k16_f16 from memory to the registers of a warp (D: scope "fragment"). From
// rows in shared memory that begin at multiples of 16 bytes by `ldmatrix.trans` (PTX ISA).
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_b_intrinsic = {
    .name = "mma_m16n8k16_f16_load_b",
    .meaning = R"(
func mma_m16n8k16_f16_load_b(D: f16[16, 8] output, B: f16[16, 8]):
  for i in 16:
    for j in 8:
      block D(vi: spatial[16] = i, vj: spatial[8] = j):
        reads B[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = B[vi, vj]
)",
    .implementation = R"(
lowered func mma_m16n8k16_f16_load_b(D: f16[128] output, B: f16[128], sd: i64 in 8.., sb: i64 in 8..):
  mma_m16n8k16_f16_load_b.i32(&D[0], sd, &B[0], sb)
)",
    .available = has_mma,
    .per_warp = true,
    .in_fragments = 1};

// D[16, 8] = C[16, 8]: sums of mma_m16n8k16_f16 from the registers of a warp (C: scope "fragment") to memory.
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_store_intrinsic = {
    .name = "mma_m16n8k16_f16_store",
    .meaning = R"(
func mma_m16n8k16_f16_store(D: f32[16, 8] output, C: f32[16, 8]):
  for i in 16:
    for j in 8:
      block D(vi: spatial[16] = i, vj: spatial[8] = j):
        reads C[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = C[vi, vj]
)",
    .implementation = R"(
lowered func mma_m16n8k16_f16_store(D: f32[128] output, C: f32[128], sd: i64 in 8.., sc: i64 in 8..):
  mma_m16n8k16_f16_store.i32(&D[0], sd, &C[0], sc)
)",
    .available = has_mma,
    .per_warp = true,
    .in_fragments = 2};

}  // namespace fettle
