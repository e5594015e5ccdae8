#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Factors a reduction along one of its loops: each iteration of the loop gets a partial result of its own, and a
/// second block adds these up. (Suriana, Adams, Kamil: Parallel Associative Reductions in Halide, CGO 2017.)
///   for i: for k0: for k1: block C(vi = i, vk = k0*n + k1): C[vi] += f(vi, vk)
///   →
///   for i: for k0: for k1: block C_rf(vi = i, vk0 = k0, vk1 = k1):  C_rf[vk0, vi] += f(vi, vk0*n + vk1)
///   for i: for k0: block C(vi = i, vk0: reduce = k0):                 C[vi] += C_rf[vk0, vi]
/// So the loop k0 of the first nest is spatial and can run in parallel, in lanes or on threads.
///
/// block:       a reduction block with an update C[…] = C[…] op f, op one of + * min max ordered_max, and op's neutral
///              element as init
/// loop:        one of the block's reduction loops, of constant extent, serial
/// factor_axis: where the new dimension of the partial results stands: 0 … rank of C (-1: last)
/// Returns the block of the partial results, C_rf, whose loops are the old ones; the old reference stands for the block
/// that adds them up, behind it, in loops of its own. Results are reassociated: the same terms in another order. Costs
/// a buffer of the output times the loop's extent, and one pass over it.
/// Errors: E201 the loop is not serial · E206 no such loop or block · E207 the loop does not enclose the block, or
///         other blocks stand under it · E212 no such reduction, or no reduction loop of it · E220 no such factor_axis
///         · E221 the extent is not a constant · E227 a condition on the reduction might skip the init of a partial
///         result
struct RfactorArgs {
  BlockRef block;
  LoopRef loop;
  int64_t factor_axis = 0;
  static constexpr auto fields = std::tuple{field("block", &RfactorArgs::block), field("loop", &RfactorArgs::loop),
                                            field("factor_axis", &RfactorArgs::factor_axis)};
};
Result<BlockRef> rfactor(Schedule& s, const RfactorArgs& args);

}  // namespace fettle
