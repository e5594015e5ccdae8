// C[16, 8] = 0: sums of mma_m16n8k16_f16 in the registers of a warp (C: scope "fragment") before the first product.

#include "target/intrinsics/mma_m16n8k16_f16.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func mma_m16n8k16_f16_fill(C: f32[16, 8] output):
  for i in 16:
    for j in 8:
      block C(vi: spatial[16] = i, vj: spatial[8] = j):
        writes C[vi, vj]
        C[vi, vj] = 0.0
)";

// The lanes' code is codegen/cuda's.
constexpr std::string_view kImplementation = R"(
lowered func mma_m16n8k16_f16_fill(C: f32[128] output, sc: i64 in 8..):
  mma_m16n8k16_f16_fill.i32(&C[0], sc)
)";

}  // namespace

extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_fill_intrinsic = {.name = "mma_m16n8k16_f16_fill",
                                                                             .meaning = kMeaning,
                                                                             .implementation = kImplementation,
                                                                             .available = has_mma_m16n8k16_f16,
                                                                             .per_warp = true,
                                                                             .in_fragments = 1};

}  // namespace fettle
