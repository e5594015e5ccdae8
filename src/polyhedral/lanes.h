#pragma once
// Vectors of blocks that have been ordered anew.

#include <cstdint>
#include <string>

#include "schedule/schedule.h"

namespace fettle {

/// The innermost loop around the block becomes vectors of `lanes` elements, where its iterations are independent and
/// may be enough.
Result<> make_lanes(Schedule& s, const std::string& block, int64_t lanes);
/// The same where the block writes neighbours in that loop.
Result<> make_lanes_along_memory(Schedule& s, const std::string& block, int64_t lanes);
/// The innermost loop around the block that is neither a vector nor of an open extent is unrolled by `factor`: whole,
/// where it has no more iterations.
Result<> unroll_innermost(Schedule& s, const std::string& block, const IntRef& factor);

/// Whether what the block writes moves with the loop; and by one element, to a neighbour.
bool moves_what_is_written(const BlockNode& block, const ForNode& loop);
bool writes_along(const BlockNode& block, const ForNode& loop);

}  // namespace fettle
