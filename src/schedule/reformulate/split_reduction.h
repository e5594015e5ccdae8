#pragma once

#include "schedule/reformulation.h"

namespace fettle {

/// Reduces in parts, and then the parts, so that the parts can run in parallel or in vector lanes.
///   for i: for k in K: C[i] (+)= f(i, k)
///     →  for p in P: for i: for r in R: C_partial[p, i] (+)= f(i, p*R + r)   where p*R + r < K
///        for i: for p in P:             C[i] (+)= C_partial[p, i]
/// numbers: [P], at least 1; R = ceil(K / P), and P is lowered to ceil(K / R), so that no part is empty.
///          [P, 1]: the parts are interleaved, so that they can be the lanes of vectors; P <= K stays as it is:
///     →  for i: for p in P: for r in R: C_partial[i, p] (+)= select(r*P + p < K, f(i, r*P + p), neutral element)
///        for i: for p in P:             C[i] (+)= C_partial[i, p]
/// Of several reduce iterators the last one is k; the others stay where they are, in the parts:
///   for i: for j: for k: C[i] (+)= f(i, j, k)   →   for i: for p: for j: for r: C_partial[i, p] (+)= …
/// Pattern: a perfect nest whose loops are bound one to one to the block's iterators, without a predicate; the reduction's
/// extent constant; an init, and an update C[…] = C[…] op f with op one of + * min max, whose init is op's neutral
/// element.
/// Returns C_partial and C. Class: reassociating. Costs a buffer of P times the output.
extern const ReformulationDef split_reduction_def;

}  // namespace fettle
