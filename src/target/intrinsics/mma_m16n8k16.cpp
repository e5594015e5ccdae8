// C[16, 8] += A[16, 16] @ B[16, 8] by one warp: factors of f16 or bf16, sums in f32, by the tensor cores of NVIDIA's
// GPUs from sm_80 on (PTX ISA, "mma.m16n8k16 with floating point type"). Products are exact; the order of the sums is
// the machine's. A, B and C lie where the whole warp sees them, or in registers of the warp (scope "fragment"), where
// …_load_a, …_load_b and …_fill put them and …_store takes them from. Elements of C in fragments may be read and
// written by the thread that has them: element [i, j] is thread i % 8 * 4 + j % 8 // 2's.

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

enum class Factors : uint8_t { kF16, kBf16 };
consteval std::string_view type_of(Factors factors) { return factors == Factors::kF16 ? "f16" : "bf16"; }

consteval IntrinsicText name_of(Factors factors, std::string_view what) {
  IntrinsicText text;
  text << "mma_m16n8k16_" << type_of(factors) << what;
  return text;
}

template <Factors factors>
struct Product {
  static consteval IntrinsicText meaning() {
    const std::string_view type = type_of(factors);
    IntrinsicText text;
    text << "func " << name_of(factors, "") << "(A: " << type << "[16, 16], B: " << type
         << "[16, 8], C: f32[16, 8] output):\n  for i in 16:\n    for j in 8:\n      for k in 16:\n";
    text << "        block C(vi: spatial[16] = i, vj: spatial[8] = j, vk: reduce[16] = k):\n";
    text << "          reads A[vi, vk], B[vk, vj]\n          writes C[vi, vj]\n";
    text << "          C[vi, vj] = C[vi, vj] + f32(A[vi, vk]) * f32(B[vk, vj])\n";
    return text;
  }
  static consteval IntrinsicText code() {
    const std::string_view type = type_of(factors);
    IntrinsicText text;
    text << "lowered func " << name_of(factors, "") << "(A: " << type << "[256], B: " << type
         << "[128], C: f32[128] output, sa: i64 in 16.., sb: i64 in 8.., sc: i64 in 8..):\n  ";
    text << name_of(factors, "") << ".i32(&A[0], sa, &B[0], sb, &C[0], sc)\n";
    return text;
  }

  static constexpr IntrinsicText name_text = name_of(factors, ""), meaning_text = meaning(), code_text = code();
  static constexpr TensorIntrinsicDef def = by_warp(name_text, meaning_text, code_text, 0);
};

// C[16, 8] = 0: sums in the registers of a warp (C: scope "fragment") before the first product.
template <Factors factors>
struct Fill {
  static consteval IntrinsicText meaning() {
    IntrinsicText text;
    text << "func " << name_of(factors, "_fill") << "(C: f32[16, 8] output):\n  for i in 16:\n    for j in 8:\n";
    text << "      block C(vi: spatial[16] = i, vj: spatial[8] = j):\n        writes C[vi, vj]\n"
         << "        C[vi, vj] = 0.0\n";
    return text;
  }
  static consteval IntrinsicText code() {
    IntrinsicText text;
    text << "lowered func " << name_of(factors, "_fill") << "(C: f32[128] output, sc: i64 in 8..):\n  ";
    text << name_of(factors, "_fill") << ".i32(&C[0], sc)\n";
    return text;
  }

  static constexpr IntrinsicText name_text = name_of(factors, "_fill"), meaning_text = meaning(), code_text = code();
  static constexpr TensorIntrinsicDef def = by_warp(name_text, meaning_text, code_text, 1);
};

enum class Copied : uint8_t { kA, kATransposed, kB, kBTransposed, kSums };

// D = X, or its transpose, one of the two in the registers of a warp (scope "fragment").
template <Factors factors, Copied copied>
struct Copy {
  static constexpr bool transposes = copied == Copied::kATransposed || copied == Copied::kBTransposed;
  static constexpr int rows = 16, columns = copied == Copied::kA || copied == Copied::kATransposed ? 16 : 8;
  static constexpr std::string_view type = copied == Copied::kSums ? "f32" : type_of(factors);
  static constexpr std::string_view what = copied == Copied::kA             ? "_load_a"
                                           : copied == Copied::kATransposed ? "_load_a_km"
                                           : copied == Copied::kB           ? "_load_b"
                                           : copied == Copied::kBTransposed ? "_load_b_nk"
                                                                            : "_store";

  static consteval IntrinsicText meaning() {
    IntrinsicText text;
    text << "func " << name_of(factors, what) << "(D: " << type << "[" << rows << ", " << columns
         << "] output, X: " << type << "[";
    if (transposes)
      text << columns << ", " << rows;
    else
      text << rows << ", " << columns;
    const std::string_view source = transposes ? "X[vj, vi]" : "X[vi, vj]";
    text << "]):\n  for i in " << rows << ":\n    for j in " << columns << ":\n      block D(vi: spatial[" << rows
         << "] = i, vj: spatial[" << columns << "] = j):\n";
    text << "        reads " << source << "\n        writes D[vi, vj]\n        D[vi, vj] = " << source << "\n";
    return text;
  }
  static consteval IntrinsicText code() {
    IntrinsicText text;
    text << "lowered func " << name_of(factors, what) << "(D: " << type << "[" << rows * columns
         << "] output, X: " << type << "[" << rows * columns << "], sd: i64 in " << columns << ".., sx: i64 in "
         << (transposes ? rows : columns) << "..):\n  ";
    text << name_of(factors, what) << ".i32(&D[0], sd, &X[0], sx)\n";
    return text;
  }

  static constexpr IntrinsicText name_text = name_of(factors, what), meaning_text = meaning(), code_text = code();
  static constexpr TensorIntrinsicDef def =
      by_warp(name_text, meaning_text, code_text, copied == Copied::kSums ? 2 : 1);
};

}  // namespace

extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_intrinsic = Product<Factors::kF16>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_bf16_intrinsic = Product<Factors::kBf16>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_fill_intrinsic = Fill<Factors::kF16>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_bf16_fill_intrinsic = Fill<Factors::kBf16>::def;

// A[16, 16] from rows, or from columns (X[k, m]); rows in shared memory that begin at multiples of 16 bytes by
// `ldmatrix`, columns by `ldmatrix.trans` (PTX ISA).
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_a_intrinsic = Copy<Factors::kF16, Copied::kA>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_bf16_load_a_intrinsic = Copy<Factors::kBf16, Copied::kA>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_a_km_intrinsic =
    Copy<Factors::kF16, Copied::kATransposed>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_bf16_load_a_km_intrinsic =
    Copy<Factors::kBf16, Copied::kATransposed>::def;

// B[16, 8] from rows (X[k, n]), by `ldmatrix.trans`, or from columns (X[n, k]), by `ldmatrix`.
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_b_intrinsic = Copy<Factors::kF16, Copied::kB>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_bf16_load_b_intrinsic = Copy<Factors::kBf16, Copied::kB>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_b_nk_intrinsic =
    Copy<Factors::kF16, Copied::kBTransposed>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_bf16_load_b_nk_intrinsic =
    Copy<Factors::kBf16, Copied::kBTransposed>::def;

// Sums from the registers of a warp to memory.
extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_store_intrinsic = Copy<Factors::kF16, Copied::kSums>::def;
extern constinit const TensorIntrinsicDef mma_m16n8k16_bf16_store_intrinsic = Copy<Factors::kBf16, Copied::kSums>::def;

}  // namespace fettle
