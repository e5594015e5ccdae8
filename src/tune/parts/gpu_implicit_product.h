#pragma once
// Convolutions, and products with several loops of a kind, as products of two matrices (matrix_form.h) whose elements
// are worked out where they are read into shared memory.

#include "schedule/schedule.h"
#include "target/target.h"

namespace fettle {

/// The role of the blocks A and B (kRoleKey): they are to be computed where they are read.
inline constexpr const char* kMatrixRole = "matrix";

/// Makes such products of all blocks that may be: of constant extents, each output iterator in one of the
/// factors. Comes before paddings are inlined.
Result<> make_matrix_products(Schedule& s);

}  // namespace fettle
