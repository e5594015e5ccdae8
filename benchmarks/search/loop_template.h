#pragma once
// One template for every program: its knobs are those of the largest block's loops.

#include "tune/template/template.h"

namespace fettle::bench {

/// Everything that can be inlined is; then the block that does most is cut, spatial loops in two and those of a
/// reduction in two,
///   for i_0, j_0: for k_0: for k_1: for i_1: for j_1: S        S R R S
/// with knobs for the cuts ("tile_i"), for the order of k_1 and i_1 ("order"), for how many outer loops run in parallel
/// and for what is unrolled; other blocks get lanes and threads without knobs, or join the tile of what they read.
Template loop_template(int threads);

}  // namespace fettle::bench
