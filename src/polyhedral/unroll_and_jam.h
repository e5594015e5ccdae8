#pragma once
// Several rows of a recurrence at once.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// An order in which each iteration of the innermost loop has several rows of the loop around it.
struct JammedRows {
  IndexMap map;
  std::vector<int64_t> factors;  // of these, for `reschedule`, with whole tiles apart
  int64_t rows = 1;
};

/// How many rows of a recurrence hide what an iteration of `block` waits for: 4 or 8. It waits for operations in turn,
/// of `latency` cycles each, from an element of the buffer that it writes to the next.
int64_t rows_to_jam(const BlockNode& block, int latency);

/// Unroll-and-jam of the last two rows of a permutable order, the last of which carries dependences:
///   (…, r, s) → (…, r // rows, s, r)       where r carries none
///   (…, r, s) → (…, r // rows, r + s, r)   where r does
/// No two of the rows' iterations in one of the innermost loop need each other. A dependence that goes on in r goes on
/// in r + s, too, for it does not go back in s. So the processor overlaps their latencies. After Callahan, Carr and
/// Kennedy, "Improving register allocation for subscripted variables" (PLDI 1990), and Wolf and Lam, "A loop
/// transformation theory" (1991), for the skew. Nothing where `map` has other outputs than the order's `members`, or
/// fewer than two.
std::optional<JammedRows> jam_rows(const IndexMap& map, size_t members, bool rows_wait, int64_t rows);

/// Writes the rows out where the block stands in a whole tile, after `reschedule` by these rows.
Result<> write_rows_out(Schedule& s, const std::string& block, const JammedRows& jammed);

}  // namespace fettle
