#pragma once
// Parts that templates are made of: a register tile with its knobs, and plain nests.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generations/autotvm/template/template.h"
#include "tune/parts/inline.h"
#include "tune/parts/threads.h"

namespace fettle {

struct TileKnobs {
  bool pack = true;            // a knob "pack": the factor that moves with the vectors is read from panels
  bool order_reduce = true;    // a knob "order_reduce": every order of the loops of the reduction
  bool unroll_windows = true;  // a knob "unroll_…" for each loop of the reduction of at most 8 iterations, but one
  bool unroll_steps = true;    // a knob "steps", where the reduction is one loop: so many of its steps unrolled
  int64_t max_rows = 16;
  std::string suffix;     // of the knobs' names, where a program has several tiles
  int most_parallel = 2;  // a knob "parallel": so many of the outermost loops, together; 0: no knob, none
  // A knob "prefetch": the next panel is asked for early; where panels of constants are larger than the second-level
  // cache, if nothing is said.
  std::optional<bool> prefetch;
  std::vector<int64_t> rows;  // choices of a knob "rows" that stands for "tile_…", where the extent is a choice, too
  size_t shared = 0;          // so many of the outermost loops enclose other blocks, too, and stay as they are
};

/// Tiles a reduction so that its accumulators are registers: the work of templates of products, convolutions and
/// pooling.
///   for outer…: for reduce…: for rows: for vectors, lanes: C_register += …      then the tile is stored, with what is
///   done to it element by element
/// Knobs: "vectors" of a row of the tile, "tile_LOOP" for the loop of its rows, and for a second one where rows are few
/// or windows share what they read; "order" of the loops around it, "parallel" for the first of these, or the first
/// two, and those of `which`. Rows that lie one behind the other in memory are those of one loop (a 1x1 convolution is
/// a product of matrices). Panels that are no constants are filled in vectors, by all threads. Constraints: the tile
/// fits the registers, unrolled windows are not too much code. Which loop is what follows from the block's accesses
/// (tiling_roles). Errors: E230 no loop fills vectors · those of the steps
Result<> tile_with_knobs(TemplateContext& t, const std::string& block, const TileKnobs& which = {});

/// Cuts [tiles, rows] of a loop into tiles of at most `most` rows whose heights differ by one: of each number of tiles
/// the lowest.
///   19, 16   →   19x1, 10x2, 7x3, 5x4, 4x5, 3x7, 2x10
std::vector<std::vector<int64_t>> row_cuts(int64_t extent, int64_t most);

/// A nest of a block that works element by element: a knob "vectors_BLOCK", and the outermost loop parallel as
/// "parallel_BLOCK" says.
Result<> nest_with_knobs(TemplateContext& t, const std::string& block);

/// The program's one reduction by tile_with_knobs, what is computed before it inlined. Errors: E230 there is none.
Result<> tile_the_reduction(TemplateContext& t, const TileKnobs& which = {});

/// Every block by nest_with_knobs but for those named, and what constants alone decide.
Result<> nests_of_others(TemplateContext& t, const std::vector<std::string>& but);

/// The schedule's target; one with AVX-512 where it has none.
std::shared_ptr<const Target> target_or_usual(const Schedule& s);
/// Lanes of a vector of f32 of that target.
int64_t lanes_of(const Schedule& s);

}  // namespace fettle
