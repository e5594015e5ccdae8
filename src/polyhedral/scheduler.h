#pragma once
// A program's blocks in an order that isl's scheduler finds, as steps of a schedule.

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// Which blocks share loops (the names of Tensor Comprehensions).
enum class FusionStrategy {
  kMax,                  // all that can
  kPreserve3Coincident,  // as kMax, unless a block would lose parallel loops among its first three
  kMin,                  // those alone that need each other in turn
};

struct PolyhedralOptions {
  FusionStrategy fusion = FusionStrategy::kPreserve3Coincident;
  /// Rows may add loops; without it each row is one loop, shifted.
  bool allow_skewing = true;
  /// Updates of a reduction may change places.
  bool reassociate = true;
  /// Tile sizes of the outermost band's rows, outermost first; the last one holds for all further ones. Empty: none.
  std::vector<IntRef> tiles;
  /// Whole tiles are parted from the others, so that their loops have constant extents.
  bool full_tiles = true;
  /// Elements of a vector: the innermost loop becomes lanes where it may. 1: it stays.
  int64_t lanes = 1;
  /// Threads share the outermost loop that may be parallel.
  bool parallel = false;
};

/// Adds the steps that give the blocks of the program's body an order with dependences kept, short reuse distances and,
/// outermost, loops of independent iterations. What is not affine is named, and the schedule stays as it is.
/// After Verdoolaege and Janssens, "Scheduling for PPCG" (2017), and Bondhugula et al., PLDI 2008.
/// Errors: E209 a block is not affine, or isl gave up · E211 there is nothing to schedule
Result<> reschedule_program(Schedule& s, const PolyhedralOptions& options);

}  // namespace fettle
