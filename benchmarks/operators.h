#pragma once

#include "harness/onednn.h"
#include "ir/func.h"

namespace fettle::bench {

/// C[m, n] = sum over k of A[m, k] B[k, n]; B constant. One block, "C".
Func matmul_func(const MatmulProblem& problem);

/// Convolution in NCHW and OIHW; weights constant, activations with free layouts. Blocks "padded" (if there is padding)
/// and "O".
Func convolution_func(const ConvProblem& problem);

/// Depthwise convolution, activations in NHWC, weights (C, H, W), constant. Blocks "padded" and "O".
Func depthwise_func(const ConvProblem& problem);

}  // namespace fettle::bench
