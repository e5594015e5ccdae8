#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Splits a padding block into one that fills all with the constant and one that copies the inside.
///   for h in 58: for w in 58: block P(vh, vw): P[vh, vw] = select(1 <= vh && vh < 57 && …, A[vh - 1, vw - 1], 0)
///   →
///   for h in 58: for w in 58: block P_fill(vh, vw): P[vh, vw] = 0
///   for h in 56: for w in 56: block P(vh, vw):      P[vh + 1, vw + 1] = A[vh, vw]
/// The fill repeats the loops from `loop` inwards, and stands before it. A loop that alone makes up an iterator is cut
/// to the inside; otherwise the copy gets a condition.
///
/// loop: encloses the block
/// Returns the filling block, named <block>_fill. Costs one pass over the border twice; saves the test.
/// Errors: E206 no such loop or block · E207 the loop does not enclose the block · E211 another block writes the buffer
///         E226 the block's value is no selection between something and a constant by bounds on single iterators
struct DecomposePaddingArgs {
  BlockRef block;
  LoopRef loop;
  static constexpr auto fields =
      std::tuple{field("block", &DecomposePaddingArgs::block), field("loop", &DecomposePaddingArgs::loop)};
};
Result<BlockRef> decompose_padding(Schedule& s, const DecomposePaddingArgs& args);

}  // namespace fettle
