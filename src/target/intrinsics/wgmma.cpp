// C[64, N] += A[64, 16] @ B by a warp group: 128 threads along threadIdx.x, on the tensor cores of sm_90a (PTX ISA,
// "wgmma.mma_async"). Factors are f16 or bf16, sums f32. Products are exact; the order of the sums is the machine's. A
// and B lie in shared memory, where bulk copies put them; B is [16, N], or [N, 16] ("_nk"). C lies in the registers of
// the warp group (scope "fragment"), where wgmma_m64nN_fill makes it zero. Its elements may be read and written by the
// thread that has them: element [i, j] is thread i // 16 * 32 + i % 8 * 4 + j % 8 // 2's.

#include "target/intrinsics/intrinsic_text.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// The code is codegen/cuda's.
bool has_wgmma(const Target& target) { return target.kind == "cuda" && target.cpu == "sm_90a"; }

consteval TensorIntrinsicDef by_warp_group(std::string_view name, std::string_view meaning,
                                           std::string_view implementation, unsigned in_fragments) {
  return {.name = name,
          .meaning = meaning,
          .implementation = implementation,
          .available = has_wgmma,
          .threads = 128,
          .in_fragments = in_fragments};
}

enum class Factors : uint8_t { kF16, kBf16 };
enum class B : uint8_t { kKn, kNk };

template <int columns, Factors factors, B layout>
struct Product {
  static constexpr std::string_view type = factors == Factors::kF16 ? "f16" : "bf16";

  static consteval IntrinsicText name() {
    IntrinsicText text;
    text << "wgmma_m64n" << columns << "k16_" << type << (layout == B::kNk ? "_nk" : "");
    return text;
  }
  static consteval IntrinsicText b_shape(std::string_view between) {
    IntrinsicText text;
    if (layout == B::kKn)
      text << 16 << between << columns;
    else
      text << columns << between << 16;
    return text;
  }
  static consteval IntrinsicText meaning() {
    IntrinsicText text;
    text << "func " << name() << "(A: " << type << "[64, 16], B: " << type << "[" << b_shape(", ") << "], C: f32[64, "
         << columns << "] output):\n  for i in 64:\n    for j in " << columns << ":\n      for k in 16:\n";
    text << "        block C(vi: spatial[64] = i, vj: spatial[" << columns << "] = j, vk: reduce[16] = k):\n";
    const std::string_view b = layout == B::kKn ? "B[vk, vj]" : "B[vj, vk]";
    text << "          reads A[vi, vk], " << b << "\n          writes C[vi, vj]\n";
    text << "          C[vi, vj] = C[vi, vj] + f32(A[vi, vk]) * f32(" << b << ")\n";
    return text;
  }
  static consteval IntrinsicText code() {
    IntrinsicText text;
    text << "lowered func " << name() << "(A: " << type << "[1024], B: " << type << "[" << 16 * columns << "], C: f32["
         << 64 * columns << "] output, sa: i64 in 16.., sb: i64 in 16.., sc: i64 in " << columns << "..):\n  ";
    text << name() << ".i32(&A[0], sa, &B[0], sb, &C[0], sc)\n";
    return text;
  }

  static constexpr IntrinsicText name_text = name(), meaning_text = meaning(), code_text = code();
  static constexpr TensorIntrinsicDef def = by_warp_group(name_text, meaning_text, code_text, 4);
};

// C[64, N] = 0: the sums before the first product.
template <int columns>
struct Fill {
  static consteval IntrinsicText name() {
    IntrinsicText text;
    text << "wgmma_m64n" << columns << "_fill";
    return text;
  }
  static consteval IntrinsicText meaning() {
    IntrinsicText text;
    text << "func " << name() << "(C: f32[64, " << columns << "] output):\n  for i in 64:\n    for j in " << columns
         << ":\n      block C(vi: spatial[64] = i, vj: spatial[" << columns
         << "] = j):\n        writes C[vi, vj]\n        C[vi, vj] = 0.0\n";
    return text;
  }
  static consteval IntrinsicText code() {
    IntrinsicText text;
    text << "lowered func " << name() << "(C: f32[" << 64 * columns << "] output, sc: i64 in " << columns << "..):\n  ";
    text << name() << ".i32(&C[0], sc)\n";
    return text;
  }

  static constexpr IntrinsicText name_text = name(), meaning_text = meaning(), code_text = code();
  static constexpr TensorIntrinsicDef def = by_warp_group(name_text, meaning_text, code_text, 1);
};

}  // namespace

extern constinit const TensorIntrinsicDef wgmma_m64n16_fill_intrinsic = Fill<16>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n16k16_f16_intrinsic = Product<16, Factors::kF16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n16k16_f16_nk_intrinsic = Product<16, Factors::kF16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n16k16_bf16_intrinsic = Product<16, Factors::kBf16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n16k16_bf16_nk_intrinsic = Product<16, Factors::kBf16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n32_fill_intrinsic = Fill<32>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n32k16_f16_intrinsic = Product<32, Factors::kF16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n32k16_f16_nk_intrinsic = Product<32, Factors::kF16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n32k16_bf16_intrinsic = Product<32, Factors::kBf16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n32k16_bf16_nk_intrinsic = Product<32, Factors::kBf16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n64_fill_intrinsic = Fill<64>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n64k16_f16_intrinsic = Product<64, Factors::kF16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n64k16_f16_nk_intrinsic = Product<64, Factors::kF16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n64k16_bf16_intrinsic = Product<64, Factors::kBf16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n64k16_bf16_nk_intrinsic = Product<64, Factors::kBf16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n96_fill_intrinsic = Fill<96>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n96k16_f16_intrinsic = Product<96, Factors::kF16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n96k16_f16_nk_intrinsic = Product<96, Factors::kF16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n96k16_bf16_intrinsic = Product<96, Factors::kBf16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n96k16_bf16_nk_intrinsic = Product<96, Factors::kBf16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n128_fill_intrinsic = Fill<128>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n128k16_f16_intrinsic = Product<128, Factors::kF16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n128k16_f16_nk_intrinsic = Product<128, Factors::kF16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n128k16_bf16_intrinsic = Product<128, Factors::kBf16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n128k16_bf16_nk_intrinsic =
    Product<128, Factors::kBf16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n192_fill_intrinsic = Fill<192>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n192k16_f16_intrinsic = Product<192, Factors::kF16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n192k16_f16_nk_intrinsic = Product<192, Factors::kF16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n192k16_bf16_intrinsic = Product<192, Factors::kBf16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n192k16_bf16_nk_intrinsic =
    Product<192, Factors::kBf16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n256_fill_intrinsic = Fill<256>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n256k16_f16_intrinsic = Product<256, Factors::kF16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n256k16_f16_nk_intrinsic = Product<256, Factors::kF16, B::kNk>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n256k16_bf16_intrinsic = Product<256, Factors::kBf16, B::kKn>::def;
extern constinit const TensorIntrinsicDef wgmma_m64n256k16_bf16_nk_intrinsic =
    Product<256, Factors::kBf16, B::kNk>::def;

}  // namespace fettle
