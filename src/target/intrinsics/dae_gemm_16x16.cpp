// C[16] += B[16, 16] @ A[16] in 8-bit integers with 32-bit sums: one cycle of the simulated accelerator. A in scope
// inp, B in wgt, C in acc.

#include "target/intrinsics/dot_product.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr auto kMeaning = dot_product("dae_gemm_16x16", "i8", "i8", "i32", 16, 16);

// As loops: codegen/dae knows the instruction by its name.
constexpr std::string_view kImplementation = R"(
lowered func dae_gemm_16x16(A: i8[16], B: i8[256], C: i32[16] output, sb: i64 in 16..16):
  for j in 16:
    for k in 16:
      C[j] = C[j] + i32(A[k]) * i32(B[j * sb + k])
)";

bool available(const Target& target) { return target.kind == "dae"; }

}  // namespace

extern constinit const TensorIntrinsicDef dae_gemm_16x16_intrinsic = {"dae_gemm_16x16", kMeaning, kImplementation,
                                                                      available};

}  // namespace fettle
