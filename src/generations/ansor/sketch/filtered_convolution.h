#pragma once
// A convolution by Winograd's minimal filtering, for the rules of Ansor and MetaSchedule: what their "simplify compute with
// constant tensor" and "special compute location" do to the transforms, with the batched product left to multi-level tiling.
// (Zheng et al.: Ansor, OSDI 2020, section 4.1; TVM's rules of these names.)

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// The note on a block that is scheduled to the end: no rule, place or annotation changes it.
inline constexpr const char* kScheduled = "scheduled";
bool is_scheduled(const BlockNode& block);

/// Where `s` has been edited by nothing but reformulations and its only reduction is a 3x3 convolution that minimal
/// filtering may pay for (space/algorithm.h): the schedules of F(2x2) and F(4x4), each over the whole image and, on a CPU,
/// in strips of rows of tiles, whose height is drawn (sample_perfect_tile, at minimal_filtering/BLOCK/strip). None where it is
/// not.
///   O = I * W   →   O_weights (once, in the prologue); O_rows, O_tiles; O_product; O_columns, O
/// Rows of the constant matrices are sums by the reformulation itself; what is left to simplify are the loops that
/// select among them, which are unrolled. O_rows is computed where O_tiles reads it, and O_columns where O does, for one tile
/// of one vector of channels (GPU: of one channel, in each thread). O_product has loops of its own, for other rules to tile; all
/// other blocks are noted kScheduled, parallel where no other block will make them so.
///   in strips:   for p_0: { for p_1, q, c: O_tiles;  for x, y, p, q, o, c: O_product;  for p_1, q, o: O }
std::vector<Schedule> filtered_by_tiles(const Schedule& s, int threads);

/// One of these ways: m outputs of a tile in each direction.
struct FilteringWay {
  int64_t outputs = 0;
  bool strips = false;
};
/// All, without their schedules; empty where filtered_by_tiles has none.
std::vector<FilteringWay> ways_to_filter(const Schedule& s);
/// Errors: E228, E230, E234, and those of the steps
Result<Schedule> filtered_by(const Schedule& start, const FilteringWay& way, int threads);

/// The number, among the loops around `block`, of the outermost that holds nothing else; their count where none does.
size_t first_own_loop(const Func& func, const BlockNode& block);
/// The outermost loop around `block` that may be noted to be unrolled, by the same number: the first, but where the nest holds kScheduled
/// blocks, too, which are unrolled as they should be, the first that is its own.
size_t first_loop_to_unroll(const Func& func, const BlockNode& block);

}  // namespace fettle
