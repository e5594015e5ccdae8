#pragma once
// Rows on a GPU: reductions along memory, and what is done with their results element by element. Each row goes through
// all blocks in the registers of the threads that have it.
//
//   M[i] = max_k X[i, k];  E[i, k] = exp(X[i, k] - M[i]);  S[i] = sum_k E[i, k];  Y[i, k] = E[i, k] / S[i]
//   →  for b blockIdx.x: X_local = X[b, …]; M: a part for each thread, then their parts; E_local; S; Y

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/gpu_reductions.h"
#include "tune/parts/loops.h"
#include "tune/parts/row_group.h"

namespace fettle {

/// Whether one of the group's reductions is in parts of a row.
bool splits_rows(const Func& func, const RowGroup& group);

/// The blocks of `group` for one row, or few, after another: rows to blocks of threads, elements to threads. `keeps`:
/// what several blocks read of a row stays in registers. Errors: E230 the blocks are not of this kind · the steps'
Result<Finished> gpu_rows(Schedule& s, const Target& target, const RowGroup& group, bool keeps);

}  // namespace fettle
