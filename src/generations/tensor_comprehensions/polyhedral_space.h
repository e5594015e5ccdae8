#pragma once
// Orders of iterations by isl's scheduler, with the options of Tensor Comprehensions as decisions.

#include <memory>

#include "tune/space/space.h"

namespace fettle {

/// Which blocks share loops, whether loops may be skewed, and tile sizes are drawn; all else follows
/// (polyhedral/scheduler.h). Whatever reads or overwrites what earlier iterations wrote, in nests of any affine bounds,
/// has programs in it. E209 a block is not affine, or isl gave up
std::unique_ptr<Space> make_polyhedral_space();

}  // namespace fettle
