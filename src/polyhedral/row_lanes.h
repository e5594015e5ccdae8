#pragma once
// Rows of recurrences as lanes of vectors.

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// Outer-loop vectorization. `lanes` iterations of a loop whose iterations are independent become vectors, around loops
/// that run in order. Each lane then goes along a row of its own:
///   for i: for j: A[i, j] = f(A[i, j - 1])   →   for i0: for j: for l in 4 vectorized: A[i0 * 4 + l, j] = f(…)
/// It is the outermost loop that all of `blocks` share and that has such a form. Threads share its vectors, where
/// `shared` is true. `made`: all blocks in it. After Nuzman and Zaks, "Outer-loop vectorization: revisited for short
/// SIMD architectures" (PACT 2008).
/// Errors: E211 the blocks share no such loop
Result<> make_rows_lanes(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes, bool shared,
                         std::vector<std::string>& made);

}  // namespace fettle
