#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Gives a block a buffer that is indexed by its iterators, in their order, and a block of its own copies between that
/// and the buffer.
///   block C: C[h, w] += A[h*2 + r, w*2 + q] * …
///   →
///   for h, w, r, q: block A_reindex: A_reindex[vh, vw, vr, vq] = A[vh*2 + vr, vw*2 + vq]
///   block C: C[h, w] += A_reindex[h, w, r, q] * …
/// Then transform_layout and transform_block_layout can bring both into the same form: this is how a convolution
/// becomes a matrix product (im2col).
/// buffer_index, buffer_index_type: the buffer, as the block's "read" or "write" of that number
/// Returns the copying block, named <buffer>_reindex. Costs a buffer of the size of the iterators that the access uses.
/// Errors: E103 an access that only a condition keeps inside the buffer · E206 no such block
///         E211 a reader that also writes the buffer, or a writer that is neither complete nor a reduction
///         E214 several different accesses · E215 the nest shares a loop with the buffer's writers (readers)
///         E216 a writer, or a reader inside another block, that does not reach all of its iterators' domain
///         E217 two of a writer's instances write one element · E220 no such read or write
///         E241 buffer_index_type is neither "read" nor "write"
struct ReindexArgs {
  BlockRef block;
  int64_t buffer_index = 0;
  std::string buffer_index_type = "read";
  static constexpr auto fields =
      std::tuple{field("block", &ReindexArgs::block), field("buffer_index", &ReindexArgs::buffer_index),
                 field("buffer_index_type", &ReindexArgs::buffer_index_type)};
};
Result<BlockRef> reindex(Schedule& s, const ReindexArgs& args);

}  // namespace fettle
