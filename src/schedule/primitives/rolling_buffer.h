#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Keeps the rows that overlap from one iteration of a loop to the next: the buffer between a stencil and its producer
/// becomes circular, and only new rows are computed.
///   for y0: for ax0 in 10, ax1: block P(vh = y0*8 + ax0, …): P[vh, …] = f      P: [66, w]
///           for y1 in 8, x, r: block C(…): C[…] += P[vy + vr, …]
///   →
///   for y0: for ax0 in 10, ax1: block P(vh: opaque = …, …) where y0 < 1 || 2 <= ax0: P[vh % 10, …] = f      P: [10, w]
///           for y1 in 8, x, r: block C(…): C[…] += P[(vy + vr) % 10, …]
/// Made for what compute_at leaves. The loop is the outermost around the block and all readers along which a dimension
/// of the buffer moves on by fewer rows than one iteration makes; readers must stay within these. It keeps the order of
/// its iterations and is annotated with the buffer's name, so that lowering keeps the buffer outside of it. Blocks that
/// touch the buffer stay where they are: come here last.
///
/// block:       makes the buffer, one element an instance, without a reduction
/// write_index: which of its writes
/// Returns nothing. Costs a remainder in each access; saves the overlap's computation.
/// Errors: E201 a loop around the block and all readers is not serial · E206 no such block
///         E207 no loop is around the block and all readers · E211 the block is not complete, or its predicate does
///         more than bound its iterators · E218 the buffer is a parameter, or has a layout · E220 no such write E240
///         nothing overlaps, or a reader needs rows that its iteration does not make or keep
struct RollingBufferArgs {
  BlockRef block;
  int64_t write_index = 0;
  static constexpr auto fields =
      std::tuple{field("block", &RollingBufferArgs::block), field("write_index", &RollingBufferArgs::write_index)};
};
Result<> rolling_buffer(Schedule& s, const RollingBufferArgs& args);

/// True if the loop's annotation (kRollingBufferKey) names the buffer.
bool rolls(const ForNode& loop, const BufferNode& buffer);
/// E227 where the block touches a buffer that rolls along a loop around it, so that it must stay where it is.
Result<> check_not_rolling(const Func& func, const BlockNode& block);

}  // namespace fettle
