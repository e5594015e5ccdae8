#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Accumulates in another scope for as long as one iteration of `loop` lasts.
///   for k0: for i0: for k1, i1: block C(vi, vk): init C[vi] = 0; C[vi] += f(vi, vk)
///   →  (at i0)
///   for k0: for i0:
///     for ax0: block C_S_load(vi, step = k0):   C_S[vi] = select(step == 0, 0, C[vi])
///     for k1, i1: block C(vi, vk):              C_S[vi] += f(vi, vk)
///     for ax0: block C_S_store(vi, step = k0):  C[vi] = C_S[vi]
/// The reduction loops outside (k0) become scan iterators of the two new blocks: in the first step the tile takes the
/// init value, later what the step before has stored. Lowering resolves the conditions when it makes the phases of k0.
/// An elementwise consumer inlined into the store (reverse_compute_inline) works in the last step only; so does one
/// moved under the loop (reverse_compute_at). Loops of the new blocks follow the tile, as in reverse_compute_at.
///
/// A scan that reads and writes one element of the buffer takes it as it is, and leaves it there:
///   for i0: for t: for i1: S[vi] = f(S[vi], X[t, vi])
///   →  for i0: for ax0: S_S[vi] = S[vi];  for t: for i1: S_S[vi] = f(S_S[vi], X[t, vi]);  for ax0: S[vi] = S_S[vi]
///
/// block:       a reduction block whose init is in place, or a scan
/// write_index: which of its writes
/// loop:        encloses the block
/// scope:       memory scope of the accumulators
/// Returns the loading and the storing block. Costs one load and one store of the tile in each iteration of `loop`.
/// Errors: E206 no such loop or block · E207 the loop does not enclose the block · E212 no reduction block
///         E215 another block there uses what is written · E216 a loop outside moves through reduction and output at
///         once · E219 unknown scope · E220 no such write
///         E227 below the loop the block may run twice for one point, or what its init reads is made there
struct CacheInplaceArgs {
  BlockRef block;
  int64_t write_index = 0;
  LoopRef loop;
  std::string scope = kScopeRegister;
  static constexpr auto fields =
      std::tuple{field("block", &CacheInplaceArgs::block), field("write_index", &CacheInplaceArgs::write_index),
                 field("loop", &CacheInplaceArgs::loop), field("scope", &CacheInplaceArgs::scope)};
};
/// {load, store}
Result<std::vector<BlockRef>> cache_inplace(Schedule& s, const CacheInplaceArgs& args);

}  // namespace fettle
