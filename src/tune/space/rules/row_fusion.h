#pragma once
// Programs that work row by row: each row goes through all blocks while it is in the first-level cache.
//
//   for i: for k: M[i] max= X[i, k]        parallel i:
//   for i: for k: E[i, k] = exp(…)     →     for k: M max= X[i, k]      (in registers, one part a lane, then by halves)
//   for i: for k: S[i] += E[i, k]            for k: E[k] = exp(…)       (a row that stays in cache)
//   for i: for k: Y[i, k] = E[i, k] / S[i]   for k: S += E[k]
//                                            for k: Y[i, k] = E[k] * (1 / S)
//
// Several rows may be worked on at once: pass by pass, so that one need not wait for another's sums.
//
//   parallel runs of rows: for i0: for i in 2: M[i] max= X[i0 * 2 + i, k] …
//                                  for i in 2: …
//
// Where the rows themselves are contiguous in memory (softmax over channels of an image), vectors hold rows side by
// side.

#include "tune/space/rule.h"

namespace fettle {

extern const SketchRule row_fusion_def;

}  // namespace fettle
