#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Reads a buffer through a copy of what one iteration of a loop needs, made at the beginning of that iteration: a
/// cache_read and its compute_at in one step. On a GPU the threads of a block share the copying (cooperative fetching).
///   for i0: for i1 in 8: block C(vi = i0*8 + i1): C[vi] = f(A[vi])
///   →
///   for i0:
///     for ax0 in 8: block A_S(v0 = i0*8 + ax0): A_S[v0] = A[v0]
///     for i1 in 8: block C(…): C[vi] = f(A_S[vi])
/// loop:       encloses the block
/// block:      the reader
/// read_index: which of its reads
/// scope:      memory scope of the copy
/// Returns the copying block, named <buffer>_<scope>. Costs one copy.
/// Errors: E201 the loop is vectorized · E206 no such loop or block · E207 the loop is elsewhere · E211 another block
///         writes the buffer · E215 a reader or writer would be on the wrong side of the copy · E216 what is copied
///         cannot be told · E219 unknown scope · E220 no such read
struct ReadAtArgs {
  LoopRef loop;
  BlockRef block;
  int64_t read_index = 0;
  std::string scope = kScopeGlobal;
  static constexpr auto fields =
      std::tuple{field("loop", &ReadAtArgs::loop), field("block", &ReadAtArgs::block),
                 field("read_index", &ReadAtArgs::read_index), field("scope", &ReadAtArgs::scope)};
};
Result<BlockRef> read_at(Schedule& s, const ReadAtArgs& args);

}  // namespace fettle
