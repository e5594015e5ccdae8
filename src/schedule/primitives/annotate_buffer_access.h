#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// States what region of a buffer a block touches, in place of what was inferred.
///   annotate_buffer_access(B, 0, "read", (i) -> (max(i*4 - 1, 0), i*4 + 5)):
///   reads A[vi*4 +: 4]   →   reads A[max(vi*4 - 1, 0) +: …]
/// The region must hold all that the block is known to touch; steps that follow (compute_at, cache_read) go by it. Of a
/// write it must be exactly that, since what a region says is written counts as made.
/// buffer_index, buffer_index_type: the buffer, as the block's "read" or "write" of that number
/// region: from the block's iterators to the first index and the end (one past the last) of each dimension in turn
/// Returns nothing. Costs what a larger region makes others copy or compute.
/// Errors: E206 no such block · E216 it may not hold all that is touched, or not all is written · E220 no such read or
///         write · E241 the map has other numbers of inputs or outputs, or buffer_index_type is neither "read" nor
///         "write"
struct AnnotateBufferAccessArgs {
  BlockRef block;
  int64_t buffer_index = 0;
  std::string buffer_index_type = "read";
  IndexMap region;
  static constexpr auto fields = std::tuple{field("block", &AnnotateBufferAccessArgs::block),
                                            field("buffer_index", &AnnotateBufferAccessArgs::buffer_index),
                                            field("buffer_index_type", &AnnotateBufferAccessArgs::buffer_index_type),
                                            field("region", &AnnotateBufferAccessArgs::region)};
};
Result<> annotate_buffer_access(Schedule& s, const AnnotateBufferAccessArgs& args);

}  // namespace fettle
