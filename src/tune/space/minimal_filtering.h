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

#include <optional>
#include <string>
#include <vector>

#include "tune/space/rule.h"

namespace fettle {

/// Schedules all parts of ctx.filtering. E230, and what the primitives refuse: then the point is none.
Result<> filter_in_tiles(RuleContext& ctx);

/// The loops of parts that are placed, none of them parallel.
struct PlacedTransforms {
  std::string last;              // the block that writes the output
  std::vector<LoopRef> around;   // the product: those of strips; none where there are none
  std::vector<LoopRef> outputs;  // that walk through the output's tiles, outermost first: those around as well
  std::vector<LoopRef> inputs;   // that walk through the input's tiles, where there are no strips
};
/// Schedules all parts but the product, of strips as high as `strip` rows of tiles, or of none: the first transform of the
/// data is computed where the second reads it, one tile at a time, as is the first of the outputs, and the selections
/// among rows of the constant matrices are unrolled away. On a target with vectors these are channels; on one with
/// threads each thread has one channel of a tile. Errors as above
Result<PlacedTransforms> place_transforms(RuleContext& ctx, const MinimalFiltering& parts, std::optional<IntRef> strip);

}  // namespace fettle
