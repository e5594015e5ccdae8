#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Gives a buffer that is filled and used in each iteration of a loop two places. The next iteration can fill one while
/// the other is in use.
///   for k: block T(…): T[…] = …; block C(…): … T[…]   →   for k: block T(…) {double_buffer = 0}: …
/// write_index: which of the block's writes. The buffer must be internal, and the loop around the block and all readers
/// must make in each iteration all that the iteration reads. Run in order it means the same. Lowering makes it a
/// pipeline of two stages (lower/passes/pipeline_loops.cpp). The next iteration's block, and what it needs, runs before
/// this iteration's readers. Where other parts of the loop forbid that, it runs in order.
/// Returns nothing. Costs the second place.
/// Errors: E206 no such block · E207 no loop is around the block and all readers · E211 the block is not complete
///         E218 the buffer is a parameter · E220 no such write · E227 a reader needs what another iteration made
struct DoubleBufferArgs {
  BlockRef block;
  int64_t write_index = 0;
  static constexpr auto fields =
      std::tuple{field("block", &DoubleBufferArgs::block), field("write_index", &DoubleBufferArgs::write_index)};
};
Result<> double_buffer(Schedule& s, const DoubleBufferArgs& args);

}  // namespace fettle
