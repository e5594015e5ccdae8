#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Moves a consumer under a loop of its producer, where it handles what one iteration of the loop has produced.
///   for i0: for i1, j: block C(…): C[vi, vj] = …      for i, j: block D(vi, vj): D[vi, vj] = f(C[vi, vj])
///   →
///   for i0: for i1, j: block C(…)
///           for ax0 in 14, ax1 in m: block D(vi = i0*14 + ax0, vj = ax1): …   where i0*14 + ax0 < n
/// The old loops of the block go. New ones, serial and of constant extent, follow the producer's tile: one for each
/// iterator. Where a tile is no rectangle (a fused loop that crosses rows), they repeat the producer's loops. A
/// condition replaces what a partial tile lacks. Iterators that the producer does not determine (of a broadcast) get
/// full loops. Under a loop outside of which, or in which, the producer's reduction goes on, the block runs in the last
/// step only, unless it was below that loop already:
///   … where k0 == last
/// Buffers keep their size: lowering shrinks them to what lives in one iteration.
///
/// preserve_unit_loops: keep loops of extent 1, so that there is one for each iterator
/// Errors: E201 the loop is vectorized · E206 no such loop or block · E207 the loop is elsewhere, or around the block
///         already · E211 neither a complete nor a reduction block, or an iteration of a loop around would run other
///         instances than now, of which it makes what they read · E215 a producer would run after the block, or the
///         loop produces nothing that it reads · E216 the block needs more than its own tile, or a loop moves through
///         the producer's reduction and output at once
struct ReverseComputeAtArgs {
  BlockRef block;
  LoopRef loop;
  bool preserve_unit_loops = true;
  static constexpr auto fields =
      std::tuple{field("block", &ReverseComputeAtArgs::block), field("loop", &ReverseComputeAtArgs::loop),
                 field("preserve_unit_loops", &ReverseComputeAtArgs::preserve_unit_loops)};
};
Result<> reverse_compute_at(Schedule& s, const ReverseComputeAtArgs& args);

}  // namespace fettle
