#include "driver/untuned.h"

#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/get_output_blocks.h"
#include "schedule/primitives/parallel.h"

namespace fettle {

Result<Schedule> untuned_schedule(const Func& workload, std::shared_ptr<const Target> target, int threads) {
  Schedule schedule(workload);
  schedule.set_target(std::move(target));
  if (threads == 1) return schedule;
  FETTLE_TRY(const std::vector<BlockRef> blocks, get_output_blocks(schedule, {}));
  for (const BlockRef& block : blocks) {
    FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(schedule, {block}));
    for (const LoopRef& loop : loops) {
      FETTLE_TRY(const Stmt stmt, schedule.loop(loop));
      const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
      if (!extent || *extent < threads) continue;
      if (parallel(schedule, {loop})) break;
    }
  }
  return schedule;
}

}  // namespace fettle
