#pragma once
// How fast the tile unit is where its tiles come from the first-level cache: two loads of each factor, four products.

#include "harness/paired.h"

namespace fettle::bench {

/// Of bf16, or of bytes; on each of so many threads at once.
Contender tile_loop(bool bytes, int threads);

}  // namespace fettle::bench
