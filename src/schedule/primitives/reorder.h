#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Puts loops of one nest into the given order. They keep, between them, the places that they hold; other loops of
/// the nest stay where they are.
///   reorder([k, i]):  for i: for j: for k: S   →   for k: for j: for i: S
/// loops: two or more, on one path on which every loop but the last is the whole body of the one before.
/// The order of a scan's steps, and of blocks whose iterators are opaque, is kept. A loop that such an iterator uses
/// does not change places with another, unless each point of the scan (its spatial iterators' values) reads and writes
/// elements of its own. Then loops over points may go anywhere. The order of loops from which the iterators of a
/// reduction and of its output follow together (fused ones) is kept, too, since it decides what comes first, beside the
/// init. So is that of a reduction's loops and of those that make it run anew, whole or for elements that neighbours
/// share.
/// Costs a copy of the nest's loops, not of what is beneath. Returns nothing; the references stay good.
/// Errors: E206 no such loop · E207 not on one path, or a loop given twice
///         E208 a loop's bounds depend on a loop that would move inside it
///         E210 the loops' order is that of a scan, of a reduction along its output or of an opaque block, or one block
///         needs what another one makes in another iteration
struct ReorderArgs {
  std::vector<LoopRef> loops;
  static constexpr auto fields = std::tuple{field("loops", &ReorderArgs::loops)};
};
Result<> reorder(Schedule& s, const ReorderArgs& args);

}  // namespace fettle
