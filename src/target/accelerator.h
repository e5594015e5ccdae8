#pragma once
// The decoupled access-execute accelerator that codegen/dae simulates.

#include "target/target.h"

namespace fettle {

/// "dae": scopes inp (activations, 32 KiB), wgt (weights, 32 KiB) and acc (sums, 128 KiB) beside memory, and the tensor
/// intrinsic dae_gemm_16x16. What is filled inside virtual threads has a place for each of them.
Target accelerator_target();

}  // namespace fettle
