#pragma once
// Gives reductions along contiguous memory lanes to work in, before all rules.

#include <string>

#include "target/target.h"
#include "tune/parts/decider.h"

namespace fettle {

/// Sums (products, minima, maxima) over the innermost dimension of what they read are split into interleaved parts, one
/// a lane, which are then combined by halves (reduce_in_lanes).
///   S[i] += X[i, r]   →   S_partial[i, p] += X[i, r*16 + p];   S_8[i, p] = S_partial[i, p] + S_partial[i, p + 8]; …
/// How many vectors of parts is a choice, at "lane_reductions/<block>/vectors".
/// What divides by a number that the program itself has worked out for several elements multiplies by its reciprocal.
Result<> lane_reductions(Schedule& s, const Target& target, Decider& decider);

/// One reduction in so many parts: reformulate "split_reduction" with [parts, 1], and "pairwise_reduction".
Result<> reduce_in_lanes(Schedule& s, BlockRef block, int64_t parts);

/// What the block divides by, where its elements share it, becomes a reciprocal: reformulate "shared_reciprocal".
/// False: they do not, and nothing has changed.
bool try_shared_reciprocal(Schedule& s, const std::string& block);

}  // namespace fettle
