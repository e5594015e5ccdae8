#pragma once
// Carries a schedule over to another workload with the same anchor block, whatever else the workloads do.
// (MetaSchedule's schedule_using_anchor_trace.)

#include "schedule/schedule.h"

namespace fettle {

/// The block that does most of the work: the reduction with most points or, where there is none, the block with most.
/// Null where there is no block.
const BlockNode* anchor_block(const Func& func);

/// `trace` schedules `origin`. Steps about its anchor block, and about blocks that these steps made, are applied to the
/// anchor block of `workload`. Steps about other blocks, and steps that are refused here, are left out, with all that
/// need their results. Then blocks that the trace knows nothing of are inlined where that is legal, into their readers
/// or else into what they read. Errors: E206 a program has no block · those of verify
Result<Schedule> replay_anchor(const Func& workload, const Func& origin, const ParsedTrace& trace,
                               std::shared_ptr<const Target> target = nullptr);

}  // namespace fettle
