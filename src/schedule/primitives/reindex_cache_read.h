#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Reads a buffer through a copy in another scope whose indices follow from the block's iterators.
///   block C: C[i] += f(A[i*2 + k])          reindex_cache_read(C, 0, "global", (i, k) -> (k, i))
///   →
///   for i, k: block A_global: A_global[vk, vi] = A[vi*2 + vk]
///   block C: C[i] += f(A_global[k, i])
/// read_index: which of the block's reads; of several places of one buffer, the copy is for that one
/// scope:      memory scope of the copy
/// index_map:  from all of the block's iterators, in their order, to indices of the copy; a bijection of those that the
///             access uses. What it pads is not copied
/// Returns the copying block, named <buffer>_<scope>. Costs one copy.
/// Errors: E103 an access that only a condition keeps inside the buffer · E206 no such block · E211 the block also
///         writes the buffer · E214 several different accesses, none of which the read is · E215 the nest shares a loop
///         with the buffer's writers · E216 inside another block, a block that does not reach all of its iterators'
///         domain · E217 the map is no such bijection · E219 unknown scope · E220 no such read
struct ReindexCacheReadArgs {
  BlockRef block;
  int64_t read_index = 0;
  std::string scope = kScopeGlobal;
  IndexMap index_map;
  static constexpr auto fields =
      std::tuple{field("block", &ReindexCacheReadArgs::block), field("read_index", &ReindexCacheReadArgs::read_index),
                 field("scope", &ReindexCacheReadArgs::scope), field("index_map", &ReindexCacheReadArgs::index_map)};
};
Result<BlockRef> reindex_cache_read(Schedule& s, const ReindexCacheReadArgs& args);

}  // namespace fettle
