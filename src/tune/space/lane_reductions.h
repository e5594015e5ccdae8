#pragma once
// Before everything else: reductions along contiguous memory get lanes to work in.

#include "tune/space/rule.h"

namespace fettle {

/// Sums (products, minima, maxima) over the innermost dimension of what they read are split into interleaved parts, one
/// a lane, which are then combined by halves: reformulate "split_reduction" with [lanes * k, 1], and
/// "pairwise_reduction".
///   S[i] += X[i, r]   →   S_partial[i, p] += X[i, r*16 + p];   S_8[i, p] = S_partial[i, p] + S_partial[i, p + 8]; …
/// The factor k is a decision, "lane_reductions/<block>/vectors".
/// What divides by a number that the program itself has worked out for several elements multiplies by its reciprocal:
/// "shared_reciprocal".
Result<> lane_reductions(RuleContext& ctx);

}  // namespace fettle
