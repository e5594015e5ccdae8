#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Runs a block over another index space: new iterators, in loops of their own, from which the old ones follow.
///   transform_block_layout(C, (h, w, k) -> (h * 28 + w, k)):
///   for h in 14: for w in 28: for k: block C(vh, vw, vk): C[vh, vw] += …
///   →
///   for m in 392: for k: block C(v0 = m, v1 = k): C[v0 // 28, v0 % 28] += …
/// Buffers keep their layouts (see transform_layout): with both, a convolution becomes a matrix product.
/// index_map: from the block's iterators, in their order, to the new ones; a bijection that mixes only iterators of one
///            kind, and does not pad
/// The block's nest must be plain: directly nested serial loops from 0, each bound to one iterator, no predicate.
/// Returns nothing; the old loops are consumed. Costs nothing but the divisions that remain in indices.
/// Errors: E201 a loop is annotated or not serial · E206 no such block · E207 the nest is not plain
///         E217 no bijection, or it pads, or mixes kinds
struct TransformBlockLayoutArgs {
  BlockRef block;
  IndexMap index_map;
  static constexpr auto fields = std::tuple{field("block", &TransformBlockLayoutArgs::block),
                                            field("index_map", &TransformBlockLayoutArgs::index_map)};
};
Result<> transform_block_layout(Schedule& s, const TransformBlockLayoutArgs& args);

}  // namespace fettle
