#pragma once
// MetaSchedule's space generators, as spaces to search.

#include <functional>
#include <memory>
#include <vector>

#include "generations/metaschedule/postprocessor.h"
#include "generations/metaschedule/schedule_rule.h"
#include "tune/space/space.h"

namespace fettle {

/// PostOrderApply: the rules one by one, each on all blocks from the last to the first. Which alternative a rule took
/// on a block is a decision, RULE/BLOCK/design. Then the post-processors; what they refuse is drawn anew.
std::unique_ptr<Space> post_order_apply(std::vector<ScheduleRule> rules,
                                        std::vector<Postprocessor> postprocessors = {});

/// ScheduleFn: a schedule by hand, with samplings.
using ScheduleFunction = std::function<Result<>(Schedule&)>;
std::unique_ptr<Space> schedule_fn(ScheduleFunction function, std::vector<Postprocessor> postprocessors = {});

/// The spaces of all of them; which is a decision, union/space.
std::unique_ptr<Space> space_union(std::vector<std::shared_ptr<const Space>> spaces);

/// ReplayTrace: points whose sizes are drawn anew in one of these traces, as they stand; which is a decision,
/// replay_trace/trace. A search at random in it is MetaSchedule's "replay-trace", one in schedule_fn() "replay-func".
std::unique_ptr<Space> replay_trace(std::vector<ParsedTrace> traces, std::vector<Postprocessor> postprocessors = {});

}  // namespace fettle
