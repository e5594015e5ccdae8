#pragma once
// What rules and post-processors for threads share.

#include "schedule/schedule.h"
#include "tune/metaschedule/schedule_rule.h"

namespace fettle {

/// Whether no loop around the block, nor below its outermost loop, is bound to threads.
bool is_unbound(const Func& func, const BlockNode& block);

/// The outer spatial loops of the block's nest are fused and cut, blocks outside and `threads` of each inside.
///   for i: for j: S   →   for ij_0 in … blockIdx.x: for ij_1 in 64 threadIdx.x: S
/// Does nothing where there is no such loop.
Result<> bind_outer_loops(Schedule& s, BlockRef block, const IntRef& threads);

/// The loops of a copy that stand inside the loops around its reader are fused and shared among the threads around it.
Result<> share_among_threads(Schedule& s, BlockRef copy);

}  // namespace fettle
