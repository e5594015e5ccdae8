#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/thread_binding.h"
#include "generations/metaschedule/rules/tile_block.h"
#include "generations/metaschedule/schedule_rule.h"
#include "ir/visit.h"
#include "schedule/primitives/get_block.h"

namespace fettle {
ScheduleRule cross_thread_reduction(CrossThreadReductionOptions options) {
  return {"cross_thread_reduction",
          [options = std::move(options)](const TuneContext& context, const Schedule& s,
                                         const std::string& name) -> Result<std::vector<Schedule>> {
            constexpr int kParallelBelow = 64;  // a GPU has that many blocks to fill at least
            if (!context.target->has_threads() || is_tiled(s.func(), name) ||
                !has_more_reduction_parallel(s.func(), *find_block(s.func()->body, name), kParallelBelow) ||
                !is_unbound(s.func(), *find_block(s.func()->body, name)))
              return std::vector{s};
            std::vector<Schedule> next = {s};
            Schedule across = s;
            across.set_address_prefix("cross_thread_reduction/" + name);
            FETTLE_TRY(const BlockRef block, get_block(across, {.name = name}));
            if (reduce_across_threads(across, block, options.thread_extents)) next.push_back(std::move(across));
            return next;
          }};
}

}  // namespace fettle
