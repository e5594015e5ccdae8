#pragma once
// A convolution by Winograd's minimal filtering (algorithm.h has replaced it by its parts): strips of tiles go through
// all parts one after the other, so that what lies between them stays in the second-level cache.
//
//   for p, q, c: rows, tiles      for x, y, p, q, o, c: product      for p, q, o: columns, O
//   →
//   for p0 (parallel):
//     for p1, q, c0: an input tile of one vector of channels, transformed in registers
//     for x, y: register tiles of the product, a matrix product for each point
//     for p1, q, o0: m x m pixels of one vector of channels, and what is done with them element by element
//
// or each part over the whole image, parallel by itself. The weights' transform, and their panels, are made once.

#include "tune/space/rule.h"

namespace fettle {

/// Schedules all parts of ctx.filtering. E230, and what the primitives refuse: then the point is none.
Result<> filter_in_tiles(RuleContext& ctx);

}  // namespace fettle
