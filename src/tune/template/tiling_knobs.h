#pragma once
// Parts that templates are made of: a register tile with its knobs, plain nests, and producers that are inlined.

#include <string>
#include <vector>

#include "tune/template/template.h"

namespace fettle {

struct TileKnobs {
  bool pack = true;            // a knob "pack": the factor that moves with the vectors is read from panels
  bool order_reduce = true;    // a knob "order_reduce": every order of the loops of the reduction
  bool unroll_windows = true;  // a knob "unroll_…" for each loop of the reduction of at most 8 iterations, but one
  int64_t max_rows = 16;
  std::string suffix;     // of the knobs' names, where a program has several tiles
  int most_parallel = 2;  // a knob "parallel": so many of the outermost loops, together
};

/// Tiles a reduction so that its accumulators are registers: the work of templates of products, convolutions and
/// pooling.
///   for outer…: for reduce…: for rows: for vectors, lanes: C_register += …      then the tile is stored, with what is
///   done to it element by element
/// Knobs: "vectors" of a row of the tile, "tile_LOOP" for the loop of its rows, "order" of the loops around it,
/// "parallel" for the first of these, or the first two, and those of `which`. Panels that are no constants are filled in
/// vectors, by all threads. Constraint: the tile fits the registers. Which loop is what follows from the block's accesses
/// (tiling_roles). Errors: E230 no loop fills vectors · those of the steps
Result<> tile_with_knobs(TemplateContext& t, const std::string& block, const TileKnobs& which = {});

/// A nest of a block that works element by element: a knob "vectors_BLOCK", and the outermost loop parallel as
/// "parallel_BLOCK" says.
Result<> nest_with_knobs(TemplateContext& t, const std::string& block);

/// Inlines what is computed element by element before the block, paddings too, into those that read it, where legal.
Result<> inline_producers(Schedule& s, const std::string& block);

/// Every block by nest_with_knobs but for those named, and what constants alone decide.
Result<> nests_of_others(TemplateContext& t, const std::vector<std::string>& but);

/// Lanes of a vector of f32; of a target with AVX-512 where the schedule has none.
int64_t lanes_of(const Schedule& s);

}  // namespace fettle
