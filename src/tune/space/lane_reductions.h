#pragma once
// Before everything else: reductions along contiguous memory get lanes to work in.

#include "tune/space/rule.h"

namespace fettle {

/// Sums (products, minima, maxima) over the innermost dimension of what they read are split into interleaved parts, one a
/// lane: reformulate "split_reduction" with [lanes * k, 1].
///   S[i] += X[i, r]   →   S_partial[i, p] += X[i, r*16 + p];   S[i] += S_partial[i, p]
/// The factor k is a decision, "lane_reductions/<block>/parts" (in vectors; 0: not split).
Result<> lane_reductions(RuleContext& ctx);

}  // namespace fettle
