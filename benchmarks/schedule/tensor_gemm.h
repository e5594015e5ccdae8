#pragma once
// Matrix products through tensor intrinsics, scheduled by hand.

#include <string>

#include "schedule/schedule.h"

namespace fettle::bench {

/// C[m, n] += A[m, k] B[k, n] in `sum`; B constant. One block, "C".
Func tensor_gemm_func(int64_t m, int64_t n, int64_t k, DType a, DType b, DType sum);

struct TensorGemmTiles {
  std::string intrinsic = "vpdpbusd_512";
  int64_t lanes = 16;  // columns and steps of the reduction in one instruction
  int64_t steps = 4;
  int64_t rows = 6;  // of the register tile
  int64_t vectors = 4;
  int64_t depth = 0;         // of the blocks of the reduction; 0: all at once
  bool rows_outside = true;  // row tiles outside of panels: rows stay in L1, panels in L2
  bool ask_panel = false;    // while a panel's tiles run, ask for the next panel
  bool ask_rows = false;     // while a tile runs, ask for the next tile's rows
};

/// B in panels [n / width][k / steps][width][steps], packed beforehand; a register tile of rows x (vectors x lanes)
/// sums, whose every step is one instruction. m is any, n a multiple of vectors x lanes, k of steps.
Result<> schedule_tensor_gemm(Schedule& s, const TensorGemmTiles& tiles);

}  // namespace fettle::bench
