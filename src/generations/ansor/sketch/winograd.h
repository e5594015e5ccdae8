#pragma once
// Winograd convolutions (tune/parts/winograd.h) for the rules of Ansor and MetaSchedule. It does to the transforms what
// their "simplify compute with constant tensor" and "special compute location" do, and leaves the batched product to
// multi-level tiling. (Zheng et al.: Ansor, OSDI 2020, section 4.1; TVM's rules of these names.)

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// The schedules of F(2x2) and F(4x4), each over the whole image and, on a CPU, in strips of rows of tiles. The height
/// of strips is drawn (sample_perfect_tile, at winograd/BLOCK/strip). `s` must have been edited by nothing but
/// reformulations, and Winograd may pay for its only reduction. None where it is not.
///   O = I * W   →   O_weights (once, in the prologue); O_rows, O_tiles; O_product; O_columns, O
/// Rows of the constant matrices are sums by the reformulation itself; what is left to simplify are the loops that
/// select among them, which are unrolled. O_rows is computed where O_tiles reads it, and O_columns where O does, for
/// one tile of one vector of channels (GPU: of one channel, in each thread). O_product has loops of its own, for other
/// rules to tile; all other blocks are annotated kScheduled (scheduled.h), parallel where no other block will make them
/// so.
///   in strips:   for p_0: { for p_1, q, c: O_tiles;  for x, y, p, q, o, c: O_product;  for p_1, q, o: O }
std::vector<Schedule> winograd_schedules(const Schedule& s, int threads);

/// One of these ways: m outputs of a tile in each direction.
struct WinogradWay {
  int64_t outputs = 0;
  bool strips = false;
};
/// All, without their schedules; empty where winograd_schedules has none.
std::vector<WinogradWay> winograd_ways(const Schedule& s);
/// Errors: E228, E230, E234, and those of the steps
Result<Schedule> by_winograd(const Schedule& start, const WinogradWay& way, int threads);

}  // namespace fettle
