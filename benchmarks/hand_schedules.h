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
  /// While a tile runs, the rows of A that the next one reads, which come from beyond the caches, are asked for.
  bool ask_rows = false;
  bool rows_outside = false;  // of the panels of columns; else, while the tiles of a panel run, the next is asked for
  int64_t near = 0;           // so many rows ahead the first-level cache is asked for those of the panel; 0: not
  int64_t unroll = 1;         // steps of the reduction in one iteration; needs `near`
  int64_t block = 0;          // of so many columns, which all rows pass before the next; 0: all
};

/// Direct convolution on blocks of `lanes` channels: a register tile of pixels x (vectors x lanes) channels.
struct ConvTiles {
  int64_t pixels = 14;
  int64_t vectors = 2;
  bool flat = false;         // 1x1: pixels of all rows in one loop
  int64_t prefetch = 0;      // iterations of the innermost reduction loop ahead; 0: none; channels last alone
  int64_t near = 0;          // the same into the first-level cache
  int64_t unroll = 1;        // channels read in one iteration; channels last alone
  bool taps_inside = false;  // all taps of a row for one channel; channels last alone
};

/// The schedule of `shape`'s program for `threads`; the program is that of operators.h.
Result<Schedule> hand_schedule(const Shape& shape, const Target& target, int threads);

Result<> schedule_gemm(Schedule& s, const GemmTiles& tiles, int64_t lanes, int threads);
/// As schedule_convolution, on images stored channels last; the taps of a row are unrolled, so that its borders become
/// micro-kernels of their own and padding costs nothing.
Result<> schedule_channels_last(Schedule& s, const ConvProblem& problem, const ConvTiles& tiles, int64_t lanes,
                                int threads);
Result<> schedule_convolution(Schedule& s, const ConvProblem& problem, const ConvTiles& tiles, int64_t lanes,
                              int threads);

}  // namespace fettle::bench
