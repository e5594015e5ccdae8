#pragma once
// The schedules that the core benchmark holds everything else against: written by hand, step by step, with the tile
// sizes that a performance engineer would try first on each shape.

#include "harness/shapes.h"
#include "schedule/schedule.h"

namespace fettle::bench {

/// C = A B with panels of constant B packed beforehand and a register tile of rows x (vectors x lanes).
struct GemmTiles {
  int64_t rows = 14;
  int64_t vectors = 2;
  int64_t depth = 0;        // of the blocks of k; 0: all of k at once
  bool pack_a = false;      // rows of A into panels too
  bool rows_outside = false;  // loop over row tiles outside of the loop over column panels
  Tail row_tail = Tail::kBalance;
  bool ask_panels = false;    // while the tiles of a panel of B run, ask for the next panel
  bool ask_rows = false;      // while a tile runs, ask for the rows of A that the next one reads
};

/// Direct convolution on blocks of `lanes` channels: a register tile of (rows x pixels) x (vectors x lanes) channels.
struct ConvTiles {
  int64_t pixels = 14;
  int64_t vectors = 2;
  int64_t rows = 1;   // of the image; above 1 all taps are unrolled, so that their guards are constants
  bool flat = false;  // 1x1: pixels of all rows in one loop
  int64_t prefetch = 0;  // iterations of the innermost reduction loop ahead; 0: none
  Tail pixel_tail = Tail::kBalance;
};

/// The schedule of `shape`'s program for `threads`; the program is that of operators.h.
Result<Schedule> hand_schedule(const Shape& shape, const Target& target, int threads);

Result<> schedule_gemm(Schedule& s, const GemmTiles& tiles, int64_t lanes, int threads);
/// As schedule_convolution, for an image of few channels: stored channels last, the taps of a row unrolled, so that its borders
/// become atoms of their own and padding costs nothing.
Result<> schedule_first_convolution(Schedule& s, const ConvTiles& tiles, int64_t lanes, int threads);
Result<> schedule_convolution(Schedule& s, const ConvProblem& problem, const ConvTiles& tiles, int64_t lanes, int threads);

}  // namespace fettle::bench
