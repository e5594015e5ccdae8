#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Spreads the rows of a buffer so that the stride of one dimension is `offset` modulo `factor`.
///   storage_align(B, 0, axis=0, factor=32, offset=1):   alloc B: f32[8, 64]   →   alloc B: f32[8, 64] strides[65, 1]
/// So rows begin in different cache sets, or banks of a GPU's shared memory. The buffer must be internal, of constant
/// shape. Lowering shrinks it to what is in use at once, as any other, and keeps the gaps between its rows:
///   B of f32[4096, 4096] strides[4104, 1], of which 16 x 32 are in use   →   f32[16, 32] strides[40, 1]
/// buffer_index: which of the block's writes
/// axis:         the dimension (-1: last); strides of those outside follow
/// Returns nothing. Costs the gaps.
/// Errors: E202 factor < 1, or offset outside of 0 … factor - 1 · E206 no such block · E218 the buffer is a parameter
///         E220 no such write or dimension · E221 an extent is not a constant
struct StorageAlignArgs {
  BlockRef block;
  int64_t buffer_index = 0;
  int64_t axis = 0;
  int64_t factor = 1;
  int64_t offset = 0;
  static constexpr auto fields =
      std::tuple{field("block", &StorageAlignArgs::block), field("buffer_index", &StorageAlignArgs::buffer_index),
                 field("axis", &StorageAlignArgs::axis), field("factor", &StorageAlignArgs::factor),
                 field("offset", &StorageAlignArgs::offset)};
};
Result<> storage_align(Schedule& s, const StorageAlignArgs& args);

}  // namespace fettle
