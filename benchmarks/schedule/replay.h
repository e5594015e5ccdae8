#pragma once
// A product of matrices with bias and relu, scheduled by hand in 25 steps.

#include "schedule/schedule.h"

namespace fettle::bench {

/// D = relu(A @ B + bias), 512³; B constant.
Func gemm_to_replay();
/// Packs B, tiles rows and columns for registers, keeps the sums there, puts the epilogue behind them.
Result<> schedule_in_25_steps(Schedule& s);

}  // namespace fettle::bench
