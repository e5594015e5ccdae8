#pragma once
// Which loops that are still to be unrolled, or to become lanes, can be read as they stand.

#include "ir/stmt.h"

namespace fettle {

/// Whether each copy of an unrolled loop's body is like the others: stores in a row, below further unrolled loops and
/// lanes, nothing of which is decided by the loop's variable.
bool copies_are_alike(const ForNode& unrolled);

/// Whether vectorize_loops would make vectors of the loop's body without masks or spelling out: no condition that
/// lanes answer differently. At least two lanes, from a constant on.
bool lanes_are_alike(const ForNode& vectorized);

}  // namespace fettle
