#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Reads a buffer through a copy in another scope, made by a block of its own.
///   block C: C[i, j] = f(A[i, j])
///   →
///   for ax0, ax1: block A_S: A_S[v0, v1] = A[v0, v1]
///   block C: C[i, j] = f(A_S[i, j])
/// The copy stands before the outermost loop around `block` that does not also enclose a writer of the buffer. It
/// covers the hull of what is read below that point. It has one loop a dimension, of constant extent (1 included).
/// Where the hull may exceed the buffer, the copy has a predicate.
///
/// block:           the reader
/// read_index:      which of its reads
/// scope:           memory scope of the copy
/// consumer_blocks: further readers that shall use the copy; all must come after it
/// Returns the copying block, named <buffer>_<scope>. The new buffer, of the same name and the shape of the old one,
/// belongs to the enclosing block; lowering places and shrinks it to what is live. Costs one copy.
/// Errors: E206 no such block · E211 the block also writes the buffer · E215 a consumer runs before the copy · E219
/// unknown scope · E220 no such read
struct CacheReadArgs {
  BlockRef block;
  int64_t read_index = 0;
  std::string scope = kScopeGlobal;
  std::vector<BlockRef> consumer_blocks;
  static constexpr auto fields =
      std::tuple{field("block", &CacheReadArgs::block), field("read_index", &CacheReadArgs::read_index),
                 field("scope", &CacheReadArgs::scope), field("consumer_blocks", &CacheReadArgs::consumer_blocks)};
};
Result<BlockRef> cache_read(Schedule& s, const CacheReadArgs& args);

}  // namespace fettle
