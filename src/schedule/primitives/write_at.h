#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Writes a buffer through one in another scope, copied back at the end of each iteration of a loop: a cache_write and
/// its reverse_compute_at in one step.
///   for i0: for i1 in 8: for k: block C(vi = i0*8 + i1, vk = k): C[vi] += f(vi, vk)
///   →
///   for i0:
///     for i1 in 8: for k: block C(…): C_S[vi] += f(vi, vk)
///     for ax0 in 8: block C_S(v0 = i0*8 + ax0): C[v0] = C_S[v0]
/// loop:        encloses the block, and none of its reduction loops is outside of it
/// block:       the writer
/// write_index: which of its writes
/// scope:       memory scope of what is written first
/// Returns the copying block, named <buffer>_<scope>. Costs one copy.
/// Errors: E201 the loop is vectorized · E206 no such loop or block · E207 the loop is elsewhere · E211 another block
///         writes the buffer · E215 a reader or writer would be on the wrong side of the copy · E216 what is copied
///         cannot be told · E219 unknown scope · E220 no such write
struct WriteAtArgs {
  LoopRef loop;
  BlockRef block;
  int64_t write_index = 0;
  std::string scope = kScopeGlobal;
  static constexpr auto fields =
      std::tuple{field("loop", &WriteAtArgs::loop), field("block", &WriteAtArgs::block),
                 field("write_index", &WriteAtArgs::write_index), field("scope", &WriteAtArgs::scope)};
};
Result<BlockRef> write_at(Schedule& s, const WriteAtArgs& args);

}  // namespace fettle
