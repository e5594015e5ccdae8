#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Writes a buffer through a copy in another scope whose indices follow from the block's iterators.
///   block C: C[i // 4, i % 4] += f(i, k)    reindex_cache_write(C, 0, "global", (i, k) -> (i))
///   →
///   block C: C_global[i] += f(i, k)
///   for i: block C_global: C[vi // 4, vi % 4] = C_global[vi]
/// write_index: which of the block's writes
/// scope:      memory scope of the copy
/// index_map:  from all of the block's iterators, in their order, to indices of the copy; a bijection of those that the
///             access uses, which does not pad
/// Returns the copying block, named <buffer>_<scope>. Costs one copy.
/// Errors: E103 an access that only a condition keeps inside the buffer · E206 no such block · E211 the block is
///         neither complete nor a reduction · E214 several different accesses · E215 the nest shares a loop with the
///         buffer's readers · E216 the block does not reach all of its iterators' domain · E217 the map is no such
///         bijection, or two instances write one element · E219 unknown scope · E220 no such write
struct ReindexCacheWriteArgs {
  BlockRef block;
  int64_t write_index = 0;
  std::string scope = kScopeGlobal;
  IndexMap index_map;
  static constexpr auto fields = std::tuple{
      field("block", &ReindexCacheWriteArgs::block), field("write_index", &ReindexCacheWriteArgs::write_index),
      field("scope", &ReindexCacheWriteArgs::scope), field("index_map", &ReindexCacheWriteArgs::index_map)};
};
Result<BlockRef> reindex_cache_write(Schedule& s, const ReindexCacheWriteArgs& args);

}  // namespace fettle
