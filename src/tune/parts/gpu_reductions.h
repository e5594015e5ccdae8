#pragma once
// Reductions on a GPU in parts, one for each thread, before anything else is done to the program.
//
//   for i: for k: S[i] += X[i, k]
//   →  for i: for p in 1024: for r: S_1[i, p] += X[i, r*1024 + p];  for i: for t in 256: for v in 4: S_2[t, i] += …; …

#include <optional>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/extent.h"

namespace fettle {

/// Neighbours of 4 bytes that are one access.
inline constexpr int64_t kLanesOfRows = 4;

/// Longer rows are not one block's, where there are few.
inline constexpr int64_t kMostElementsOfBlock = 1 << 18;

/// How a row of so many elements is dealt out: thread t has the elements (r*threads + t)*lanes + v of each turn r.
struct RowThreads {
  int64_t threads = 32, lanes = 1;
};
/// Nothing where the row is too short for several threads.
std::optional<RowThreads> row_threads(const Extent& elements);

/// Reductions along memory become parts, one for each thread and lane, then one for each thread, and so on (reformulate
/// "split_reduction"). Where there are few results of many terms, the first parts are those of all threads of the
/// machine: a launch of its own. Before all other steps. Results are reassociated. Of columns, `decider` says in how
/// many.
Result<> split_rows_among_threads(Schedule& s, const Target& target, Decider& decider);

}  // namespace fettle
