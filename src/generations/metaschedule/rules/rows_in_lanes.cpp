#include "generations/ansor/sketch/row_lanes.h"
#include "generations/metaschedule/schedule_rule.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {

ScheduleRule rows_in_lanes() {
  return {"rows_in_lanes",
          [](const TuneContext& context, const Schedule& s, const std::string& name) -> Result<std::vector<Schedule>> {
            // For the whole program at once, by the last block.
            const std::vector<const BlockNode*> blocks = blocks_of(s.func().root());
            if (blocks.empty() || blocks.back()->name != name || context.target->has_threads()) return std::vector{s};
            Schedule split = s;
            FETTLE_TRY_VOID(split_rows_into_lanes(split));
            return std::vector{std::move(split)};
          }};
}

}  // namespace fettle
