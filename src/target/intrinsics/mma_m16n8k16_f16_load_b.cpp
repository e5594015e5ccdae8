// D[16, 8] = B[16, 8]: the right factor of mma_m16n8k16_f16 from memory to the registers of a warp (D: scope
// "fragment"). From rows in shared memory that begin at multiples of 16 bytes by `ldmatrix.trans` (PTX ISA).

#include "target/intrinsics/mma_m16n8k16_f16.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func mma_m16n8k16_f16_load_b(D: f16[16, 8] output, B: f16[16, 8]):
  for i in 16:
    for j in 8:
      block D(vi: spatial[16] = i, vj: spatial[8] = j):
        reads B[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = B[vi, vj]
)";

// The lanes' code is codegen/cuda's.
constexpr std::string_view kImplementation = R"(
lowered func mma_m16n8k16_f16_load_b(D: f16[128] output, B: f16[128], sd: i64 in 8.., sb: i64 in 8..):
  mma_m16n8k16_f16_load_b.i32(&D[0], sd, &B[0], sb)
)";

}  // namespace

extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_b_intrinsic = {.name = "mma_m16n8k16_f16_load_b",
                                                                               .meaning = kMeaning,
                                                                               .implementation = kImplementation,
                                                                               .available = has_mma_m16n8k16_f16,
                                                                               .per_warp = true,
                                                                               .in_fragments = 1};

}  // namespace fettle
