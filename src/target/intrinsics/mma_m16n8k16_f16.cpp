// C[16, 8] += A[16, 16] @ B[16, 8] by one warp: f16 factors, sums in f32, by the tensor cores of NVIDIA's GPUs from
// sm_80 on (PTX ISA, "mma.m16n8k16 with floating point type"). Products are exact; the order of the sums is the
// machine's. A, B and C lie where the whole warp sees them, or in registers of the warp (scope "fragment"), where
// mma_m16n8k16_f16_load_a, …_load_b and …_fill put them and …_store takes them from.

#include "target/intrinsics/intrinsic_text.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// The lanes' code is codegen/cuda's.
bool has_mma(const Target& target) { return target.kind == "cuda"; }

consteval TensorIntrinsicDef by_warp(std::string_view name, std::string_view meaning, std::string_view implementation,
                                     unsigned in_fragments) {
  return {.name = name,
          .meaning = meaning,
          .implementation = implementation,
          .available = has_mma,
          .threads = 32,
          .in_fragments = in_fragments};
}

/// D = X, both of this type and shape; `x` is X's name in the code.
struct Copy {
  std::string_view name, type, X, x;
  int rows, columns;

  consteval IntrinsicText meaning() const {
    IntrinsicText text;
    text << "func " << name << "(D: " << type << "[" << rows << ", " << columns << "] output, " << X << ": " << type
         << "[" << rows << ", " << columns << "]):\n";
    text << "  for i in " << rows << ":\n    for j in " << columns << ":\n      block D(vi: spatial[" << rows
         << "] = i, vj: spatial[" << columns << "] = j):\n";
    text << "        reads " << X << "[vi, vj]\n        writes D[vi, vj]\n        D[vi, vj] = " << X << "[vi, vj]\n";
    return text;
  }
  consteval IntrinsicText code() const {
    IntrinsicText text;
    text << "lowered func " << name << "(D: " << type << "[" << rows * columns << "] output, " << X << ": " << type
         << "[" << rows * columns << "], sd: i64 in " << columns << ".., s" << x << ": i64 in " << columns << "..):\n";
    text << "  " << name << ".i32(&D[0], sd, &" << X << "[0], s" << x << ")\n";
    return text;
  }
};

}  // namespace

extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_intrinsic = by_warp("mma_m16n8k16_f16", R"(
func mma_m16n8k16_f16(A: f16[16, 16], B: f16[16, 8], C: f32[16, 8] output):
  for i in 16:
    for j in 8:
      for k in 16:
        block C(vi: spatial[16] = i, vj: spatial[8] = j, vk: reduce[16] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          C[vi, vj] = C[vi, vj] + f32(A[vi, vk]) * f32(B[vk, vj])
)",
                                                                               R"(
lowered func mma_m16n8k16_f16(A: f16[256], B: f16[128], C: f32[128] output, sa: i64 in 16.., sb: i64 in 8.., sc: i64 in 8..):
  mma_m16n8k16_f16.i32(&A[0], sa, &B[0], sb, &C[0], sc)
)",
                                                                               0);

// C[16, 8] = 0: sums of mma_m16n8k16_f16 in the registers of a warp (C: scope "fragment") before the first product.
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_fill_intrinsic = by_warp("mma_m16n8k16_f16_fill", R"(
func mma_m16n8k16_f16_fill(C: f32[16, 8] output):
  for i in 16:
    for j in 8:
      block C(vi: spatial[16] = i, vj: spatial[8] = j):
        writes C[vi, vj]
        C[vi, vj] = 0.0
)",
                                                                                    R"(
lowered func mma_m16n8k16_f16_fill(C: f32[128] output, sc: i64 in 8..):
  mma_m16n8k16_f16_fill.i32(&C[0], sc)
)",
                                                                                    1);

// D[16, 16] = A[16, 16]: the left factor of mma_m16n8k16_f16 from memory to the registers of a warp (D: scope
// "fragment"). From rows in shared memory that begin at multiples of 16 bytes by `ldmatrix` (PTX ISA).
constexpr Copy load_a{"mma_m16n8k16_f16_load_a", "f16", "A", "a", 16, 16};
constexpr auto load_a_meaning = load_a.meaning(), load_a_code = load_a.code();
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_a_intrinsic =
    by_warp(load_a.name, load_a_meaning, load_a_code, 1);

// D[16, 8] = B[16, 8]: the right factor of mma_m16n8k16_f16 from memory to the registers of a warp (D: scope
// "fragment"). From rows in shared memory that begin at multiples of 16 bytes by `ldmatrix.trans` (PTX ISA).
constexpr Copy load_b{"mma_m16n8k16_f16_load_b", "f16", "B", "b", 16, 8};
constexpr auto load_b_meaning = load_b.meaning(), load_b_code = load_b.code();
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_b_intrinsic =
    by_warp(load_b.name, load_b_meaning, load_b_code, 1);

// D[16, 8] = C[16, 8]: sums of mma_m16n8k16_f16 from the registers of a warp (C: scope "fragment") to memory.
constexpr Copy store_sums{"mma_m16n8k16_f16_store", "f32", "C", "c", 16, 8};
constexpr auto store_meaning = store_sums.meaning(), store_code = store_sums.code();
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_store_intrinsic =
    by_warp(store_sums.name, store_meaning, store_code, 2);

}  // namespace fettle
