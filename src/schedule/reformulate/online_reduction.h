#pragma once

#include "schedule/reformulation.h"

namespace fettle {

/// The maximum and the sum of exponentials of a softmax in one pass, by a reduction with two states.
/// (Milakov, Gimelshein: Online normalizer calculation for softmax, 2018, section 3.)
///   for i: for k: M[i] max= x(i, k)
///   for i: for k: E[i, k] = exp(x(i, k) - M[i])
///   for i: for k: S[i] += E[i, k]                         (or the exponential itself)
///     →  for i: for k:  init M[i] = -inf, S[i] = 0
///                       S[i] = S[i] * exp(M[i] - max(M[i], x)) + exp(x - max(M[i], x));  M[i] = max(M[i], x)
///        for i: for k: E[i, k] = …                        where others read E, too
/// Where an exponent's two sides are equal the factor is 1, also for -inf, which masks leave.
/// numbers: none. The block is the sum.
/// Pattern: maximum and sum are reductions in plain nests over the same iterators, in whichever order the loops are; both
/// use the same x, and nothing else writes or reads between them.
/// Returns the block of both states, which has the maximum's name. Class: approximate; each of K steps rounds the sum a few
/// times more, so that the error is at most 4K units. Costs a second exponential for each element, saves a pass.
extern const ReformulationDef online_reduction_def;

}  // namespace fettle
