// D[16, 8] = C[16, 8]: sums of mma_m16n8k16_f16 from the registers of a warp (C: scope "fragment") to memory.

#include "target/intrinsics/mma_m16n8k16_f16.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func mma_m16n8k16_f16_store(D: f32[16, 8] output, C: f32[16, 8]):
  for i in 16:
    for j in 8:
      block D(vi: spatial[16] = i, vj: spatial[8] = j):
        reads C[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = C[vi, vj]
)";

// The lanes' code is codegen/cuda's.
constexpr std::string_view kImplementation = R"(
lowered func mma_m16n8k16_f16_store(D: f32[128] output, C: f32[128], sd: i64 in 8.., sc: i64 in 8..):
  mma_m16n8k16_f16_store.i32(&D[0], sd, &C[0], sc)
)";

}  // namespace

extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_store_intrinsic = {.name = "mma_m16n8k16_f16_store",
                                                                              .meaning = kMeaning,
                                                                              .implementation = kImplementation,
                                                                              .available = has_mma_m16n8k16_f16,
                                                                              .per_warp = true,
                                                                              .in_fragments = 2};

}  // namespace fettle
