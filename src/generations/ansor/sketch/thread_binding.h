#pragma once
// Puts blocks on the threads of a GPU. Ansor's rules, and MetaSchedule's rules and post-processors, share it.

#include "schedule/schedule.h"
#include "target/target.h"

namespace fettle {

/// Whether no loop around the block, nor below its outermost loop, is bound to threads.
bool is_unbound(const Func& func, const BlockNode& block);

/// The outer spatial loops of the block's nest are fused and cut, blocks outside and `threads` of each inside.
///   for i: for j: S   →   for ij_0 in … blockIdx.x: for ij_1 in 64 threadIdx.x: S
/// Does nothing where there is no such loop.
Result<> bind_outer_loops(Schedule& s, BlockRef block, const IntRef& threads);

/// One of these numbers of threads, each as likely: the choice "thread_binding".
Result<ValueRef> draw_threads(Schedule& s, const std::vector<int64_t>& extents);

/// The loops of a copy that stand inside the loops around its reader are fused and shared among the threads around it.
Result<> share_among_threads(Schedule& s, BlockRef copy);

/// The terms of a reduction are shared among the threads of a block, one of `extents` (drawn, as "thread_binding") of
/// them; what they come to is added up at the end.
///   for i: for k: C[i] += A[i, k]
///   →   for i blockIdx.x: for t in T threadIdx.x: for k_0: C_rf[t, i] += A[i, k_0*T + t];   for t in T: C[i] +=
///   C_rf[t, i]
/// Of `extents` those count that divide the reduction.
/// Errors: E235 nothing is spatial, there is no reduction, or nothing divides it · those of the steps
Result<> reduce_across_threads(Schedule& s, BlockRef block, const std::vector<int64_t>& extents);

/// Whether a program can run on a target with threads: it verifies, lowers, and its blocks have no more threads than
/// the target allows. Errors: those of verify and lower_for_device · E230 too many threads · E301 the target has none
Result<> fits_threads(const Func& func, const Target& target);

}  // namespace fettle
