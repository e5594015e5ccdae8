#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Writes a buffer through one in another scope, copied back by a block of its own.
///   block C: C[i, j] += f(A[i, k])
///   →
///   block C: C_S[i, j] += f(A[i, k])
///   for ax0, ax1: block C_S: C[v0, v1] = C_S[v0, v1]
/// The copy stands after the outermost loop around `block` that does not also enclose a reader of the buffer. It covers
/// what is written below that point, with one loop a dimension (also of extent 1), of constant extent. With scope
/// "register", `reverse_compute_at` then gives each tile its own accumulators.
///
/// Returns the copying block, named <buffer>_<scope>. The new buffer, of the same name and the shape of the old one,
/// belongs to the enclosing block; lowering places and shrinks it to what is live. Costs one copy.
/// Errors: E206 no such block · E211 another block writes the buffer, or an iterator is neither spatial nor reduce; or
///         another block outside of the enclosing one does, and this one may leave out elements (a condition, blocks
///         inside) E219 unknown scope · E220 no such write
struct CacheWriteArgs {
  BlockRef block;
  int64_t write_index = 0;
  std::string scope = kScopeGlobal;
  static constexpr auto fields =
      std::tuple{field("block", &CacheWriteArgs::block), field("write_index", &CacheWriteArgs::write_index),
                 field("scope", &CacheWriteArgs::scope)};
};
Result<BlockRef> cache_write(Schedule& s, const CacheWriteArgs& args);

}  // namespace fettle
