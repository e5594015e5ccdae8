#pragma once
// Carries a schedule over to another workload with the same anchor block, whatever else the workloads do.
// (MetaSchedule's schedule_using_anchor_trace.)

#include "schedule/schedule.h"

namespace fettle {

/// The block that does most of the work: the reduction with most points or, where there is none, the block with most.
/// Null where there is no block.
const BlockNode* anchor_block(const Func& func);

/// `trace` schedules `origin`. What it does to the anchor block, and to what came of that, is done to the anchor block
/// of `workload`; steps about other blocks, and steps that are refused here, are left out with all that needs their
/// results. Then blocks that the trace knows nothing of are inlined where that is legal, into their readers or else
/// into what they read. Errors: E206 a program has no block · those of verify
Result<Schedule> replay_anchor(const Func& workload, const Func& origin, const ParsedTrace& trace,
                               std::shared_ptr<const Target> target = nullptr);

}  // namespace fettle
