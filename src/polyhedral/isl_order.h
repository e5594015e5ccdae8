#pragma once
// The order that isl's scheduler finds for a nest.

#include <string>
#include <vector>

#include "analysis/affine/nest.h"
#include "polyhedral/scheduler.h"

namespace fettle {

/// One band of a tree, with the blocks below and where all rows of the tree place them.
struct Band {
  std::vector<IndexMap> maps;  // one for each block
  size_t members = 0;          // rows of the outermost band
  bool permutable = false;
  std::vector<bool> coincident;  // of its members
};

/// What isl's scheduler makes of a nest: one band, or groups that follow one another.
struct Found {
  std::vector<std::vector<std::string>> groups;  // names of blocks
  Band band;                                     // where there is one group
};

/// Errors: E209 isl gave up, or finds what the options or the loop language exclude · E211 there is no loop to order
Result<Found> find_order(const AffineNest& nest, const PolyhedralOptions& options);

}  // namespace fettle
