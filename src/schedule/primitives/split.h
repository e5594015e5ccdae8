#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Replaces a loop of extent e by n = factors.size() nested loops.
///   for i in e: S   →   for i_0 in f0: for i_1 in f1: S[i := i_0*f1 + i_1] where i_0*f1 + i_1 < e
/// The result is one nest: where the factors do not divide e, the condition joins the predicates of the blocks
/// beneath, and the outermost new loop carries `tail` for lowering.
///
/// factors: iterations, outermost first, each >= 1; at most one is kInfer = ceil(e / others). The outermost is
///          trimmed to ceil(e / others), so that no iteration is wholly surplus.
/// tail:    how the last, partial tile is handled where f0*f1 != e:
///          exact      there is none, provably
///          guard, partition, mask, pad   as above
///          balance    tiles of two extents that differ by one (factors {n or kInfer, f}, e constant); with
///                     q = e / n and r = e % n:
///                     for i_0 in n: for i_1 in q+1: S[i := i_0*q + min(i_0, r) + i_1] where i_1 < q + (i_0 < r)
///                     Of an extent that is no constant (factors {kInfer, f}) all tiles are of f iterations but for
///                     the last two, which share what is left for them: 20 = 6 + 6 + 4 + 4 (arith/affine_map.h)
///          shift      the last tile begins earlier and overlaps the one before, so all are whole:
///                     S[i := min(i_0*f1, e - f1) + i_1]; needs e >= f1 and blocks that may run twice
/// Returns n loops, outermost first; `loop` is consumed. Costs one pass over the loop's body.
/// Errors: E201 annotated or not serial · E202 no factor, or a factor < 1 · E203 two kInfer
///         E204 product < extent · E205 kExact unproven · E206 no such loop
///         E231 balance without two factors, the first inferred where the extent is no constant; shift where a tile is
///              larger than the extent, or a block beneath reduces, scans or updates in place
struct SplitArgs {
  LoopRef loop;
  std::vector<IntRef> factors;
  Tail tail = Tail::kExact;
  static constexpr auto fields = std::tuple{field("loop", &SplitArgs::loop), field("factors", &SplitArgs::factors),
                                            field("tail", &SplitArgs::tail)};
};
Result<std::vector<LoopRef>> split(Schedule& s, const SplitArgs& args);
extern const PrimitiveDef split_def;

}  // namespace fettle
