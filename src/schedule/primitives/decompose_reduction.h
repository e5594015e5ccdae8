#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Gives the init of a reduction a nest of its own, right before `loop`.
///   for i: for k: block C(vi, vk): init C[vi] = 0; C[vi] += A[vi, vk]
///   →
///   for i: block C_init(vi): C[vi] = 0
///          for k: block C(vi, vk): C[vi] += A[vi, vk]
/// The new nest repeats those loops from `loop` inwards on which spatial iterators depend, and the conditions on them.
/// The loops keep kinds and annotations, so a tile that is unrolled and vectorized is cleared the same way.
///
/// loop: encloses the block and is not inside any of its reduction loops
/// Returns the new block, named <block>_init. Costs one pass over the output; saves a test in every iteration.
/// Errors: E206 no such loop or block · E207 the loop does not enclose the block · E212 no reduction block
///         E227 a reduction loop lies outside of `loop`, or below it the block may run twice for one point
///         or what the init reads is made
struct DecomposeReductionArgs {
  BlockRef block;
  LoopRef loop;
  static constexpr auto fields =
      std::tuple{field("block", &DecomposeReductionArgs::block), field("loop", &DecomposeReductionArgs::loop)};
};
Result<BlockRef> decompose_reduction(Schedule& s, const DecomposeReductionArgs& args);

}  // namespace fettle
