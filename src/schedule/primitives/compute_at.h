#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Moves a producer under a loop of its consumers, where it makes what one iteration of the loop needs.
///   for h, w: block P(vh, vw): P[vh, vw] = f(…)      for y0: for y1, x, r: block C(…): C[…] += P[vy + vr, vx] * …
///   →
///   for y0: for ax0 in 10, ax1 in w: block P(vh = y0*8 + ax0, vw = ax1): …   where y0*8 + ax0 < h
///           for y1, x, r: block C(…): …
/// The old loops of the block go. New ones, one for each iterator, cover the hull of what the consumers read in one
/// iteration. They are serial and of constant extent. Where the hull may leave the buffer, there is a condition. What
/// several iterations need is made several times. Buffers keep their size: lowering shrinks them to what lives in one
/// iteration. Where the loop is inside loops over the threads of a block, and the scope of what the block writes
/// belongs to all of them, it computes what all threads need (bind its loops to share the work).
///
/// preserve_unit_loops: keep loops of extent 1, so that there is one for each iterator
/// Errors: E201 the loop is vectorized · E206 no such loop or block · E207 the loop is elsewhere, or around the block
///         already · E211 neither a complete nor a reduction block, or an iteration of a loop around would run other
///         instances than now, of which it makes what they read · E213 the block writes an output of the program · E215
///         a consumer is not under the loop, or a producer of what the block reads would run after it · E216 what is
///         needed cannot be told from how the block writes
struct ComputeAtArgs {
  BlockRef block;
  LoopRef loop;
  bool preserve_unit_loops = true;
  static constexpr auto fields = std::tuple{field("block", &ComputeAtArgs::block), field("loop", &ComputeAtArgs::loop),
                                            field("preserve_unit_loops", &ComputeAtArgs::preserve_unit_loops)};
};
Result<> compute_at(Schedule& s, const ComputeAtArgs& args);

}  // namespace fettle
