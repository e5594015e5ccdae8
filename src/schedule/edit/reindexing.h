#pragma once
// Indexes buffers by the iterators of a block. reindex, reindex_cache_read and reindex_cache_write share it.

#include <string>

#include "schedule/schedule.h"

namespace fettle {

struct Reindexing {
  Buffer buffer;  // that the block reads, or writes
  bool write = false;
  const IndexMap* map = nullptr;  // from all of the block's iterators; null: those that the access uses, as they are
  std::string scope;
  std::string suffix;        // of the new buffer's and block's names: "<buffer>_<suffix>"
  std::vector<Range> place;  // which of several accesses in a reader; empty: there is one place
};

/// The block reads (or writes) a new buffer R at R[map(iterators)], and another block copies all of it from (to) the
/// buffer at the block's own indices. Returns the copying block.
/// E103 an index may be outside the buffer where the block reads it under a condition · E211 a reader that writes the
/// buffer, or a writer that is neither complete nor a reduction · E214 several different accesses, or blocks inside
/// · E215 the nest shares a loop with those who write (read) the buffer · E216 a writer, or a reader inside another
/// block, that does not reach all of its iterators' domain · E217 the map is no bijection of the iterators that the
/// access uses, or pads what is written; or two of a writer's instances write one element · E219 unknown scope
Result<Applied> reindexed(const Schedule& s, const BlockNode& block, const Reindexing& what);

}  // namespace fettle
