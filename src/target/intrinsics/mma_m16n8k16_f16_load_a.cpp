// D[16, 16] = A[16, 16]: the left factor of mma_m16n8k16_f16 from memory to the registers of a warp (D: scope
// "fragment"). From rows in shared memory that begin at multiples of 16 bytes by `ldmatrix` (PTX ISA).

#include "target/intrinsics/mma_m16n8k16_f16.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr std::string_view kMeaning = R"(
func mma_m16n8k16_f16_load_a(D: f16[16, 16] output, A: f16[16, 16]):
  for i in 16:
    for j in 16:
      block D(vi: spatial[16] = i, vj: spatial[16] = j):
        reads A[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = A[vi, vj]
)";

// The lanes' code is codegen/cuda's.
constexpr std::string_view kImplementation = R"(
lowered func mma_m16n8k16_f16_load_a(D: f16[256] output, A: f16[256], sd: i64 in 16.., sa: i64 in 16..):
  mma_m16n8k16_f16_load_a.i32(&D[0], sd, &A[0], sa)
)";

}  // namespace

extern constinit const TensorIntrinsicDef mma_m16n8k16_f16_load_a_intrinsic = {.name = "mma_m16n8k16_f16_load_a",
                                                                               .meaning = kMeaning,
                                                                               .implementation = kImplementation,
                                                                               .available = has_mma_m16n8k16_f16,
                                                                               .per_warp = true,
                                                                               .in_fragments = 1};

}  // namespace fettle
