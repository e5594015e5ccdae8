#pragma once
// Loops that are split where what they carry begins or ends.

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// Index-set splitting. All dependences that a loop carries may begin or end at one of its iterations, f, an affine
/// function of the loops around. The loop is split there, and none of the parts carries any:
///   for j in n: S(j)   →   for j in f: S(j)   S(f)   for j in f + 1 +: n - f - 1: S(j)
/// Instances run in the order that they had. Loops that go along memory become `lanes`. Threads share the outermost
/// loops that may be parallel, where `shared` is true. After Griebl, Feautrier and Lengauer, "Index set splitting"
/// (International Journal of Parallel Programming, 2000).
/// Errors: E211 there is no such loop · E209 isl gave up · those of AffineNest::of
Result<> split_index_sets(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes, bool shared);

}  // namespace fettle
