#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Cuts a nest into tiles: splits each loop in two and moves the inner parts inside.
///   tile([i, j], [f0, f1]):   for i in e0: for j in e1: S
///   →   for i_0: for j_0: for i_1 in f0: for j_1 in f1: S[i := i_0*f0 + i_1, j := j_0*f1 + j_1]
/// The same as one split for each loop, and a reorder.
/// loops:   nested on one path without branches, in any order; the tile loops take this order
/// factors: the tile's size in each loop, one for each
/// tail:    as for split
/// Returns the loops over tiles, then those within a tile, both in the order given; the old loops are consumed.
/// Errors: E201 annotated or not serial · E202 a factor < 1, or not one factor for each loop · E205 kExact unproven
///         E206 no such loop · E207 not on one path · E208 bounds that depend on a loop that would move inside
///         E210 instances that must keep their order · E231 the tail is not possible
struct TileArgs {
  std::vector<LoopRef> loops;
  std::vector<IntRef> factors;
  Tail tail = Tail::kExact;
  static constexpr auto fields = std::tuple{field("loops", &TileArgs::loops), field("factors", &TileArgs::factors),
                                            field("tail", &TileArgs::tail)};
};
Result<std::vector<LoopRef>> tile(Schedule& s, const TileArgs& args);

}  // namespace fettle
